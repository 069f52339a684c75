// Runs Badger 4 for titan-bench. Reads commands as lines and answers each with one line, `ok` or what is
// wrong.
//
//	open DIR
//	load ROWS SIZE
//	commit THREADS COMMITS PUTS SIZE ROWS SEED
//	scan SCANS COUNT ROWS SEED
//
// The rows are those of titan-bench: keys of 16 bytes, in the order of their numbers.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

var db *badger.DB

func key(n uint64) []byte {
	key := []byte("row-............")
	binary.BigEndian.PutUint64(key[8:], n)
	return key
}

func open(dir string) error {
	// As titan-bench opens Titan: no compression, no sync of each commit, a cache for all blocks, values of
	// 4 KiB in files of their own.
	opened, err := badger.Open(badger.DefaultOptions(dir).
		WithLogger(nil).
		WithCompression(options.None).
		WithSyncWrites(false).
		WithBlockCacheSize(8 << 30).
		WithIndexCacheSize(0).
		WithMetricsEnabled(false).
		WithValueThreshold(4096))
	db = opened
	return err
}

func load(rows uint64, size int) error {
	batch := db.NewWriteBatch()
	defer batch.Cancel()
	value := make([]byte, size)
	for n := uint64(0); n < rows; n++ {
		if err := batch.Set(key(n), value); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	return db.Flatten(2)
}

func commitOne(random *rand.Rand, puts int, rows uint64, value []byte) error {
	keys := make([][]byte, puts)
	for n := range keys {
		keys[n] = key(random.Uint64N(rows))
	}
	for {
		err := db.Update(func(txn *badger.Txn) error {
			for _, key := range keys {
				if err := txn.Set(key, value); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, badger.ErrConflict) {
			return err
		}
	}
}

func commit(threads, commits, puts, size int, rows, seed uint64) error {
	failures := make([]error, threads)
	var done sync.WaitGroup
	for n := range threads {
		done.Add(1)
		go func() {
			defer done.Done()
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			value := make([]byte, size)
			for range commits {
				if err := commitOne(random, puts, rows, value); err != nil {
					failures[n] = err
					return
				}
			}
		}()
	}
	done.Wait()
	return errors.Join(failures...)
}

func scan(scans, count int, rows, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0))
	for range scans {
		from := key(random.Uint64N(rows - uint64(count) + 1))
		err := db.View(func(txn *badger.Txn) error {
			options := badger.DefaultIteratorOptions
			options.PrefetchSize = count
			entries := txn.NewIterator(options)
			defer entries.Close()
			found := 0
			for entries.Seek(from); entries.Valid() && found < count; entries.Next() {
				err := entries.Item().Value(func(value []byte) error { return nil })
				if err != nil {
					return err
				}
				found++
			}
			if found < count {
				return fmt.Errorf("only %d rows instead of %d", found, count)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func perform(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	if name == "open" {
		return open(rest)
	}
	if db == nil {
		return errors.New("no database is open")
	}
	var a, b, c, d int
	var rows, seed uint64
	switch name {
	case "load":
		if _, err := fmt.Sscan(rest, &rows, &a); err != nil {
			return err
		}
		return load(rows, a)
	case "commit":
		if _, err := fmt.Sscan(rest, &a, &b, &c, &d, &rows, &seed); err != nil {
			return err
		}
		return commit(a, b, c, d, rows, seed)
	case "scan":
		if _, err := fmt.Sscan(rest, &a, &b, &rows, &seed); err != nil {
			return err
		}
		return scan(a, b, rows, seed)
	}
	return fmt.Errorf("no command is called %s", name)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := perform(lines.Text()); err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Println("ok")
		}
	}
	if db != nil {
		db.Close()
	}
}
