// Runs the operations of titan-testkit on RocksDB: a line in, a line out.
//
//   open DIR <tab> DB OPTIONS <tab> FAMILY OPTIONS <tab> WRITES
//                                                     opens or creates a database, all its families
//   close                                             closes it
//   any operation as titan_testkit::ops writes it     except `reopen`
//
// The answer is the text of titan_testkit's Outcome, or `error` and RocksDB's message. Options are
// strings as RocksDB reads them. WRITES is `plain`, or `optimistic` or `pessimistic` for writes that go
// through transactions. The program ends at the end of its standard input.

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/optimistic_transaction_db.h>
#include <rocksdb/utilities/transaction.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/write_batch.h>

using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

// The remaining words of an operation.
class Words {
 public:
  explicit Words(const std::string& text) {
    std::istringstream in(text);
    for (std::string word; in >> word;) words_.push_back(word);
  }

  bool AtEnd() const { return at_ == words_.size(); }

  std::string Next() {
    if (AtEnd()) throw std::runtime_error("a word is missing");
    return words_[at_++];
  }

  // Skips the next word if it is this one.
  bool NextIs(const std::string& word) {
    const bool is = !AtEnd() && words_[at_] == word;
    at_ += is;
    return is;
  }

  uint32_t Number() { return std::stoul(Next()); }

  std::string Key() { return Unescape(Next()); }

  std::optional<std::string> Limit() {
    if (NextIs("-")) return std::nullopt;
    return Key();
  }

  // `@n`, if present.
  std::optional<uint32_t> Snapshot() {
    if (AtEnd() || words_[at_][0] != '@') return std::nullopt;
    return std::stoul(Next().substr(1));
  }

 private:
  static std::string Unescape(const std::string& word) {
    std::string key;
    if (word == "%") return key;
    for (size_t i = 0; i < word.size(); ++i) {
      if (word[i] != '%') {
        key.push_back(word[i]);
        continue;
      }
      key.push_back(static_cast<char>(std::stoi(word.substr(i + 1, 2), nullptr, 16)));
      i += 2;
    }
    return key;
  }

  std::vector<std::string> words_;
  size_t at_ = 0;
};

void PrintKey(std::ostream& out, const Slice& key) {
  static const char* const kDigits = "0123456789abcdef";
  if (key.empty()) out << '%';
  for (size_t i = 0; i < key.size(); ++i) {
    const unsigned char byte = key[i];
    if (byte < 0x80 && (isalnum(byte) || byte == '_' || byte == '.' || byte == '/' || byte == ':')) {
      out << static_cast<char>(byte);
    } else {
      out << '%' << kDigits[byte >> 4] << kDigits[byte & 15];
    }
  }
}

// The bytes of a value `seed*length`; see Value::bytes.
std::string Value(const std::string& word) {
  const size_t star = word.find('*');
  if (star == std::string::npos) throw std::runtime_error("no value: " + word);
  uint64_t state = std::stoull(word.substr(0, star));
  const size_t size = std::stoull(word.substr(star + 1));
  const size_t period = state % 2 == 0 ? std::min<size_t>(size, 24) : size;
  std::string bytes;
  bytes.reserve(size + 24);
  while (bytes.size() < period) {
    state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    mixed ^= mixed >> 31;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(mixed >> (8 * i)));
  }
  bytes.resize(period);
  while (bytes.size() < size) {
    bytes.append(bytes, 0, std::min(size - bytes.size(), bytes.size()));
  }
  return bytes;
}

// Length and hash of a value; see Sum::of.
void PrintSum(std::ostream& out, const Slice& value) {
  uint64_t hash = 0;
  for (size_t at = 0; at < value.size(); at += 8) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(8, value.size() - at);
    for (size_t i = 0; i < n; ++i) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(value[at + i])) << (8 * i);
    }
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  out << std::dec << value.size() << ':' << std::hex << hash << std::dec;
}

// Released when nothing refers to it any more.
using Snapshot = std::shared_ptr<const rocksdb::Snapshot>;

// An iterator, and what it refers to.
struct Cursor {
  Snapshot snapshot;
  std::string lower, upper;
  Slice lower_slice, upper_slice;
  std::unique_ptr<rocksdb::Iterator> iterator;

  // The entry at which it is positioned, if any.
  bool Print(std::ostream& out) const {
    if (!iterator->Valid()) {
      Check(iterator->status());
      return false;
    }
    out << ' ';
    PrintKey(out, iterator->key());
    out << '=';
    PrintSum(out, iterator->value());
    return true;
  }
};

class Database {
 public:
  ~Database() { Close(); }

  void Open(const std::string& dir, const std::string& db_text, const std::string& family_text,
            const std::string& writes) {
    Close();
    rocksdb::Options options;
    options.create_if_missing = true;
    Check(rocksdb::GetDBOptionsFromString({}, options, db_text, &options));
    Check(rocksdb::GetColumnFamilyOptionsFromString({}, options, family_text, &options));
    family_options_ = options;
    std::vector<std::string> names;
    if (!rocksdb::DB::ListColumnFamilies(options, dir, &names).ok()) {
      names = {rocksdb::kDefaultColumnFamilyName};
    }
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const auto& name : names) descriptors.emplace_back(name, family_options_);
    std::vector<ColumnFamilyHandle*> handles;
    if (writes == "optimistic") {
      Check(rocksdb::OptimisticTransactionDB::Open(options, dir, descriptors, &handles,
                                                   &optimistic_));
      db_.reset(optimistic_);
    } else if (writes == "pessimistic") {
      Check(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), dir,
                                         descriptors, &handles, &pessimistic_));
      db_.reset(pessimistic_);
    } else {
      rocksdb::DB* db = nullptr;
      Check(rocksdb::DB::Open(options, dir, descriptors, &handles, &db));
      db_.reset(db);
    }
    for (size_t i = 0; i < names.size(); ++i) families_[names[i]] = handles[i];
  }

  void Close() {
    if (!db_) return;
    iterators_.clear();
    snapshots_.clear();
    for (const auto& [name, handle] : families_) db_->DestroyColumnFamilyHandle(handle);
    families_.clear();
    const Status status = db_->Close();
    optimistic_ = nullptr;
    pessimistic_ = nullptr;
    db_.reset();
    Check(status);
  }

  void Apply(const std::string& line, std::ostream& out) {
    Words words(line);
    const bool sync = words.NextIs("sync");
    const std::string verb = words.Next();
    if (verb == "batch" || verb == "put" || verb == "merge" || verb == "delete" ||
        verb == "single-delete" || verb == "delete-range") {
      return Write(line, sync, out);
    }
    if (verb == "get" || verb == "multi-get") return Get(words, out);
    if (verb == "scan") return Scan(words, out);
    if (verb == "iter") {
      const uint32_t id = words.Number();
      iterators_[id] = MakeCursor(words);
    } else if (verb == "drop-iter") {
      iterators_.erase(words.Number());
    } else if (verb == "snapshot") {
      snapshots_[words.Number()] = {db_->GetSnapshot(), [this](const rocksdb::Snapshot* snapshot) {
                                      db_->ReleaseSnapshot(snapshot);
                                    }};
    } else if (verb == "drop-snapshot") {
      snapshots_.erase(words.Number());
    } else if (verb == "flush") {
      Check(db_->Flush({}, Family(words.Next())));
    } else if (verb == "compact") {
      Compact(words);
    } else if (verb == "create-cf") {
      const std::string name = words.Next();
      Check(db_->CreateColumnFamily(family_options_, name, &families_[name]));
    } else if (verb == "drop-cf") {
      const std::string name = words.Next();
      ColumnFamilyHandle* const handle = Family(name);
      Check(db_->DropColumnFamily(handle));
      Check(db_->DestroyColumnFamilyHandle(handle));
      families_.erase(name);
    } else {
      return Move(verb, words, out);
    }
    out << "ok";
  }

 private:
  ColumnFamilyHandle* Family(const std::string& name) {
    const auto found = families_.find(name);
    if (found == families_.end()) throw std::runtime_error("no such family: " + name);
    return found->second;
  }

  Snapshot At(const std::optional<uint32_t>& at) {
    return at ? snapshots_.at(*at) : nullptr;
  }

  // A transaction, if writes go through transactions and one can do these.
  std::unique_ptr<rocksdb::Transaction> Begin(const std::string& line,
                                              const rocksdb::WriteOptions& options) {
    if (line.find("delete-range") != std::string::npos) return nullptr;
    rocksdb::Transaction* begun = nullptr;
    if (optimistic_ != nullptr) begun = optimistic_->BeginTransaction(options);
    if (pessimistic_ != nullptr) begun = pessimistic_->BeginTransaction(options);
    return std::unique_ptr<rocksdb::Transaction>(begun);
  }

  // Adds a write to a transaction or a batch.
  template <typename To>
  void Add(To& to, Words& words) {
    const std::string verb = words.Next();
    ColumnFamilyHandle* const family = Family(words.Next());
    const std::string key = words.Key();
    if (verb == "put") {
      Check(to.Put(family, key, Value(words.Next())));
    } else if (verb == "merge") {
      Check(to.Merge(family, key, Value(words.Next())));
    } else if (verb == "delete") {
      Check(to.Delete(family, key));
    } else if (verb == "single-delete") {
      Check(to.SingleDelete(family, key));
    } else if constexpr (std::is_same_v<To, rocksdb::WriteBatch>) {
      if (verb != "delete-range") throw std::runtime_error("no write: " + verb);
      Check(to.DeleteRange(family, key, words.Key()));
    } else {
      throw std::runtime_error("no write: " + verb);
    }
  }

  // `batch [write; write]`, or one write; a preceding `sync` was already read.
  void Write(const std::string& line, bool sync, std::ostream& out) {
    const size_t open = line.find('[');
    const size_t start = open != std::string::npos ? open + 1 : sync ? strlen("sync ") : 0;
    std::istringstream writes(line.substr(start, line.find(']') - start));
    rocksdb::WriteOptions options;
    options.sync = sync;
    const auto transaction = Begin(line, options);
    rocksdb::WriteBatch batch;
    for (std::string text; std::getline(writes, text, ';');) {
      Words words(text);
      if (transaction) {
        Add(*transaction, words);
      } else {
        Add(batch, words);
      }
    }
    // Databases with transactions write no range deletions themselves.
    Check(transaction ? transaction->Commit() : db_->GetRootDB()->Write(options, &batch));
    out << "ok";
  }

  // One key by Get, several by MultiGet.
  void Get(Words& words, std::ostream& out) {
    ColumnFamilyHandle* const family = Family(words.Next());
    std::vector<std::string> keys;
    std::optional<uint32_t> at;
    while (!words.AtEnd() && !(at = words.Snapshot())) keys.push_back(words.Key());
    rocksdb::ReadOptions options;
    options.snapshot = At(at).get();
    std::vector<std::string> values(keys.size());
    std::vector<Status> statuses;
    if (keys.size() == 1) {
      statuses.push_back(db_->Get(options, family, keys[0], &values[0]));
    } else {
      const std::vector<Slice> slices(keys.begin(), keys.end());
      const std::vector<ColumnFamilyHandle*> families(keys.size(), family);
      statuses = db_->MultiGet(options, families, slices, &values);
    }
    out << "values";
    for (size_t i = 0; i < keys.size(); ++i) {
      out << ' ';
      if (statuses[i].IsNotFound()) {
        out << "none";
      } else {
        Check(statuses[i]);
        PrintSum(out, values[i]);
      }
    }
  }

  // `FAMILY FROM TO [@n]`, with `reverse` before the snapshot if it applies.
  std::unique_ptr<Cursor> MakeCursor(Words& words, bool* reverse = nullptr) {
    ColumnFamilyHandle* const family = Family(words.Next());
    auto cursor = std::make_unique<Cursor>();
    const auto lower = words.Limit(), upper = words.Limit();
    if (reverse != nullptr) *reverse = words.NextIs("reverse");
    // RocksDB requires that it outlives the iterator.
    cursor->snapshot = At(words.Snapshot());
    rocksdb::ReadOptions options;
    options.snapshot = cursor->snapshot.get();
    // Iterators show all keys, also beyond a prefix.
    options.total_order_seek = true;
    if (lower) {
      cursor->lower = *lower;
      cursor->lower_slice = cursor->lower;
      options.iterate_lower_bound = &cursor->lower_slice;
    }
    if (upper) {
      cursor->upper = *upper;
      cursor->upper_slice = cursor->upper;
      options.iterate_upper_bound = &cursor->upper_slice;
    }
    cursor->iterator.reset(db_->NewIterator(options, family));
    return cursor;
  }

  void Scan(Words& words, std::ostream& out) {
    bool reverse = false;
    const auto cursor = MakeCursor(words, &reverse);
    rocksdb::Iterator& it = *cursor->iterator;
    out << "pairs";
    for (reverse ? it.SeekToLast() : it.SeekToFirst(); cursor->Print(out);) {
      reverse ? it.Prev() : it.Next();
    }
  }

  void Move(const std::string& verb, Words& words, std::ostream& out) {
    const Cursor& cursor = *iterators_.at(words.Number());
    rocksdb::Iterator& it = *cursor.iterator;
    out << "pairs";
    if (verb == "next" || verb == "prev") {
      for (uint32_t n = words.Number(); n > 0 && it.Valid(); --n) {
        verb == "next" ? it.Next() : it.Prev();
        cursor.Print(out);
      }
      return;
    }
    if (verb == "first") {
      it.SeekToFirst();
    } else if (verb == "last") {
      it.SeekToLast();
    } else if (verb == "seek") {
      it.Seek(words.Key());
    } else if (verb == "seek-for-prev") {
      it.SeekForPrev(words.Key());
    } else {
      throw std::runtime_error("no operation: " + verb);
    }
    cursor.Print(out);
  }

  void Compact(Words& words) {
    ColumnFamilyHandle* const family = Family(words.Next());
    const auto from = words.Limit(), to = words.Limit();
    rocksdb::CompactRangeOptions options;
    if (words.NextIs("bottommost")) {
      options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    }
    const Slice begin = from ? *from : Slice(), end = to ? *to : Slice();
    Check(db_->CompactRange(options, family, from ? &begin : nullptr, to ? &end : nullptr));
  }

  rocksdb::ColumnFamilyOptions family_options_;
  std::unique_ptr<rocksdb::DB> db_;
  // The same database, if writes go through its transactions.
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  rocksdb::TransactionDB* pessimistic_ = nullptr;
  std::map<std::string, ColumnFamilyHandle*> families_;
  std::map<uint32_t, Snapshot> snapshots_;
  std::map<uint32_t, std::unique_ptr<Cursor>> iterators_;
};

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  Database database;
  for (std::string line; std::getline(std::cin, line);) {
    std::ostringstream out;
    try {
      if (line == "close") {
        database.Close();
        out << "ok";
      } else if (line.rfind("open ", 0) == 0) {
        std::istringstream parts(line.substr(5));
        std::string dir, db, family, writes;
        std::getline(parts, dir, '\t');
        std::getline(parts, db, '\t');
        std::getline(parts, family, '\t');
        std::getline(parts, writes, '\t');
        database.Open(dir, db, family, writes);
        out << "ok";
      } else {
        database.Apply(line, out);
      }
    } catch (const std::exception& e) {
      out.str("");
      out << "error " << e.what();
    }
    std::cout << out.str() << std::endl;
  }
}
