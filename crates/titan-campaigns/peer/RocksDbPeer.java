// RocksDB of any release, controlled by lines on its standard input. Fields of a line are separated
// by tabs; each line is answered by one line: "ok", or "error" and RocksDB's message.
//
// It is run from source with the jar of a release on the class path, so it keeps to calls that all
// releases from 6.29 on have. Options are RocksDB's own text, separated by spaces, for the same
// reason; those whose name starts with @ are for what text cannot express (see `descriptor` and
// `databaseOptions`).
//
// Keys are a prefix and eight digits. Values are determined by their keys, the line that writes them
// and the seed: the caller need not know them, since `dump` writes what RocksDB itself reads.

import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.util.*;
import org.rocksdb.*;

public final class RocksDbPeer {
    /** Operations of a batch. */
    private static final int BATCH = 16;

    private RocksDB db;
    private DBOptions dbOptions;
    private final Map<String, ColumnFamilyHandle> families = new LinkedHashMap<>();
    private final Map<String, Transaction> transactions = new HashMap<>();
    private final WriteOptions logged = new WriteOptions();
    private final WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
    private final WriteOptions synced = new WriteOptions().setSync(true);
    private WriteOptions writes = logged;
    private long seed;
    /** Since the seed was set. */
    private int lines;
    /** Exported column families, by directory. */
    private final Map<String, Object> exports = new HashMap<>();

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        RocksDbPeer peer = new RocksDbPeer();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                peer.perform(line.split("\t", -1));
                answer = "ok";
            } catch (InvocationTargetException e) {
                answer = "error " + e.getCause();
            } catch (Exception | LinkageError e) {
                answer = "error " + e;
            }
            out.println(answer.replace('\n', ' '));
        }
    }

    private void perform(String[] f) throws Exception {
        lines++;
        switch (f[0]) {
            case "open": open(f); break;
            case "close": close(); break;
            case "seed": seed = Long.parseLong(f[1]); lines = 0; break;
            case "writes": writes = f[1].equals("unlogged") ? unlogged : f[1].equals("synced") ? synced : logged; break;
            case "put": put(f); break;
            case "fill": fill(f); break;
            case "delete": each(f, (batch, cf, key, i) -> batch.delete(cf, key)); break;
            case "single": each(f, (batch, cf, key, i) -> batch.singleDelete(cf, key)); break;
            case "merge": each(f, (batch, cf, key, i) -> batch.merge(cf, key, value(i, 5, 20))); break;
            case "range": range(f); break;
            case "entity": entities(f); break;
            case "timestamped": timestamped(f); break;
            case "timed": timed(f); break;
            case "flush": flush(); break;
            case "flush-wal": db.flushWal(true); break;
            case "compact": compact(f); break;
            case "drop-files": dropFiles(f); break;
            case "create": create(f); break;
            case "drop": drop(f); break;
            case "ingest": ingest(f); break;
            case "export": export(f); break;
            case "import": importFamily(f); break;
            case "begin": begin(f); break;
            case "tfill": each(f, f[5], (i, cf, key) -> transactions.get(f[6]).put(cf, key, value(i, 0, 300))); break;
            case "tdelete": each(f, f[5], (i, cf, key) -> transactions.get(f[6]).delete(cf, key)); break;
            case "prepare": prepare(transactions.get(f[1])); break;
            case "commit": end(f[1]).commit(); break;
            case "rollback": end(f[1]).rollback(); break;
            case "checkpoint": checkpoint(f); break;
            case "backup": backup(f); break;
            case "catch-up": db.tryCatchUpWithPrimary(); break;
            case "verify": db.verifyChecksum(); break;
            case "dump": dump(f[1]); break;
            default: throw new IllegalArgumentException(f[0]);
        }
    }

    // Opening and closing.

    /**
     * open KIND PATH OPTIONS [FAMILY OPTIONS]...: a new database gets the families named; an
     * existing one has its own, and those not named are opened like the default one.
     */
    private void open(String[] f) throws Exception {
        String path = f[2];
        Map<String, String> named = new LinkedHashMap<>();
        for (int i = 4; i + 1 < f.length; i += 2) {
            named.put(f[i], f[i + 1]);
        }
        String usual = named.getOrDefault("default", "");
        Map<String, String> all = new LinkedHashMap<>();
        all.put("default", usual);
        if (new File(path, "CURRENT").exists()) {
            try (Options any = new Options()) {
                for (byte[] name : RocksDB.listColumnFamilies(any, path)) {
                    all.put(text(name), named.getOrDefault(text(name), usual));
                }
            }
        } else {
            all.putAll(named);
        }
        List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
        for (Map.Entry<String, String> e : all.entrySet()) {
            descriptors.add(descriptor(e.getKey(), e.getValue()));
        }
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        dbOptions = databaseOptions(f[3]);
        db = open(f[1], path, descriptors, handles);
        for (int i = 0; i < handles.size(); i++) {
            families.put(text(descriptors.get(i).getName()), handles.get(i));
        }
    }

    private RocksDB open(String kind, String path, List<ColumnFamilyDescriptor> descriptors,
            List<ColumnFamilyHandle> handles) throws RocksDBException {
        switch (kind) {
            case "plain":
                return RocksDB.open(dbOptions, path, descriptors, handles);
            case "secondary":
                return RocksDB.openAsSecondary(dbOptions, path, path + ".secondary", descriptors, handles);
            case "optimistic":
                return OptimisticTransactionDB.open(dbOptions, path, descriptors, handles);
            case "ttl":
                List<Integer> ttls = Collections.nCopies(descriptors.size(), 1 << 30);
                return TtlDB.open(dbOptions, path, descriptors, handles, ttls, false);
            default:
                TransactionDBOptions transactional = new TransactionDBOptions();
                transactional.setWritePolicy(TxnDBWritePolicy.valueOf("WRITE_" + kind.toUpperCase(Locale.ROOT)));
                return TransactionDB.open(dbOptions, transactional, path, descriptors, handles);
        }
    }

    private void close() {
        transactions.values().forEach(Transaction::close);
        transactions.clear();
        // What was not flushed stays in the log: the caller decides that, by "flush".
        families.values().forEach(ColumnFamilyHandle::close);
        families.clear();
        if (db != null) {
            db.close();
        }
        db = null;
        writes = logged;
    }

    /** Pairs of name and value; a value may have braces around anything except spaces. */
    private static Properties properties(String options) {
        Properties properties = new Properties();
        for (String option : options.split(" ")) {
            int at = option.indexOf('=');
            if (at > 0) {
                properties.setProperty(option.substring(0, at), option.substring(at + 1));
            }
        }
        return properties;
    }

    /** Removes and returns the option of this name; null if it is missing. */
    private static String take(Properties properties, String name) {
        return (String) properties.remove(name);
    }

    /** @paths=PATH:BYTES,... */
    private static List<DbPath> paths(String text) {
        List<DbPath> paths = new ArrayList<>();
        for (String path : text.split(",")) {
            int at = path.lastIndexOf(':');
            paths.add(new DbPath(Paths.get(path.substring(0, at)), Long.parseLong(path.substring(at + 1))));
        }
        return paths;
    }

    private static DBOptions databaseOptions(String text) {
        Properties properties = properties(text);
        String paths = take(properties, "@paths");
        DBOptions options = properties.isEmpty() ? new DBOptions() : DBOptions.getDBOptionsFromProps(properties);
        if (options == null) {
            throw new IllegalArgumentException("this release has no such options: " + text);
        }
        if (paths != null) {
            options.setDbPaths(paths(paths));
        }
        return options.setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
    }

    /**
     * @comparator=NAME is bytewise order under that name, @comparator=reverse the built-in reverse one;
     * @table=plain another kind of table, @table=whole-keys one with keys that are not shortened.
     */
    private static ColumnFamilyDescriptor descriptor(String name, String text) {
        Properties properties = properties(text);
        String paths = take(properties, "@paths");
        String comparator = take(properties, "@comparator");
        String merge = take(properties, "@merge");
        String table = take(properties, "@table");
        ColumnFamilyOptions options = properties.isEmpty()
                ? new ColumnFamilyOptions()
                : ColumnFamilyOptions.getColumnFamilyOptionsFromProps(properties);
        if (options == null) {
            throw new IllegalArgumentException("this release has no such options: " + text);
        }
        if (paths != null) {
            options.setCfPaths(paths(paths));
        }
        if (merge != null) {
            options.setMergeOperatorName(merge);
        }
        if (table != null) {
            options.setTableFormatConfig(table.equals("plain")
                    ? new PlainTableConfig()
                    : new BlockBasedTableConfig().setUseDeltaEncoding(false));
        }
        if (comparator != null && comparator.equals("reverse")) {
            options.setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR);
        } else if (comparator != null) {
            options.setComparator(Bytewise.named(comparator));
        }
        return new ColumnFamilyDescriptor(name.getBytes(StandardCharsets.UTF_8), options);
    }

    /** Bytewise order under another name. */
    private static final class Bytewise extends AbstractComparator {
        /** Called by the constructor above, when no field is set yet. */
        private static String name;

        private Bytewise() {
            // In 6.29 the default lock lets two threads compare in the same buffers now and then.
            super(new ComparatorOptions()
                    .setReusedSynchronisationType(ReusedSynchronisationType.MUTEX));
        }

        static Bytewise named(String name) {
            Bytewise.name = name;
            return new Bytewise();
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public int compare(ByteBuffer a, ByteBuffer b) {
            int n = Math.min(a.remaining(), b.remaining());
            for (int i = 0; i < n; i++) {
                int order = (a.get(a.position() + i) & 255) - (b.get(b.position() + i) & 255);
                if (order != 0) {
                    return order;
                }
            }
            return a.remaining() - b.remaining();
        }
    }

    // Writing. Lines are: COMMAND FAMILY PREFIX FROM TO STEP ...

    private interface Write {
        void add(WriteBatch batch, ColumnFamilyHandle family, byte[] key, int i) throws Exception;
    }

    private interface Each {
        void perform(int i, ColumnFamilyHandle family, byte[] key) throws Exception;
    }

    private void each(String[] f, Write write) throws Exception {
        WriteBatch[] batch = {new WriteBatch()};
        int[] filled = {0};
        each(f, f.length > 5 ? f[5] : "1", (i, cf, key) -> {
            write.add(batch[0], cf, key, i);
            if (++filled[0] % BATCH == 0) {
                write(batch[0]);
                batch[0] = new WriteBatch();
            }
        });
        write(batch[0]);
    }

    private void write(WriteBatch batch) throws RocksDBException {
        try (WriteBatch written = batch) {
            db.write(writes, written);
        }
    }

    private void each(String[] f, String step, Each each) throws Exception {
        for (int i = Integer.parseInt(f[3]); i < Integer.parseInt(f[4]); i += Integer.parseInt(step)) {
            each.perform(i, family(f[1]), key(f[2], i));
        }
    }

    private ColumnFamilyHandle family(String name) {
        ColumnFamilyHandle family = families.get(name);
        if (family == null) {
            throw new IllegalArgumentException("no family " + name);
        }
        return family;
    }

    private static byte[] key(String prefix, int i) {
        return String.format("%s%08d", prefix, i).getBytes(StandardCharsets.UTF_8);
    }

    /** Half of it random, half of it repeated, of a size from `from` up to `to`. */
    private byte[] value(int i, int from, int to) {
        Random random = new Random(seed + lines * 1_000_003L + i);
        byte[] value = new byte[from + random.nextInt(to - from + 1)];
        for (int at = 0; at < value.length; at++) {
            value[at] = at % 16 < 8 ? (byte) random.nextInt() : (byte) ('a' + at % 16);
        }
        return value;
    }

    /** put FAMILY HEX-KEY HEX-VALUE; the value may be a length instead: *BYTES. */
    private void put(String[] f) throws RocksDBException {
        byte[] value = f[3].startsWith("*") ? value(0, Integer.parseInt(f[3].substring(1)), Integer.parseInt(f[3].substring(1))) : hex(f[3]);
        byte[] key = f[2].startsWith("*") ? value(1, Integer.parseInt(f[2].substring(1)), Integer.parseInt(f[2].substring(1))) : hex(f[2]);
        db.put(family(f[1]), writes, key, value);
    }

    private static byte[] hex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    /** fill FAMILY PREFIX FROM TO STEP SMALLEST LARGEST */
    private void fill(String[] f) throws Exception {
        int from = Integer.parseInt(f[6]);
        int to = Integer.parseInt(f[7]);
        each(f, (batch, cf, key, i) -> {
            if (i % 50 == 0) {
                batch.putLogData("not data".getBytes(StandardCharsets.UTF_8));
            }
            batch.put(cf, key, value(i, from, to));
        });
    }

    /** range FAMILY PREFIX FROM TO */
    private void range(String[] f) throws RocksDBException {
        db.deleteRange(family(f[1]), writes, key(f[2], Integer.parseInt(f[3])), key(f[2], Integer.parseInt(f[4])));
    }

    // Operations without a call in the Java interface are written as the bytes of a batch.

    /**
     * entity FAMILY PREFIX FROM TO [SMALLEST LARGEST]: values of up to three columns, each of 20 bytes, or of a
     * size between the two. One in four lacks the default column, one in ten has no columns.
     */
    private void entities(String[] f) throws Exception {
        int from = f.length > 6 ? Integer.parseInt(f[5]) : 20;
        int to = f.length > 6 ? Integer.parseInt(f[6]) : 20;
        each(f, "1", (i, cf, key) -> {
            ByteArrayOutputStream columns = new ByteArrayOutputStream();
            List<byte[]> names = new ArrayList<>(Arrays.asList(new byte[0], new byte[] {'a'}, new byte[] {'b', 'c'}));
            if (i % 4 == 3) {
                names.remove(0);
            }
            if (i % 10 == 9) {
                names.clear();
            }
            varint(columns, 1);
            varint(columns, names.size());
            ByteArrayOutputStream values = new ByteArrayOutputStream();
            for (byte[] name : names) {
                byte[] value = value(i + 1000 * name.length, from, to);
                prefixed(columns, name);
                varint(columns, value.length);
                values.write(value);
            }
            values.writeTo(columns);
            raw(0x16, cf, key, columns.toByteArray());
        });
    }

    /** timestamped FAMILY PREFIX FROM TO: the timestamp is the last 8 bytes of the key. */
    private void timestamped(String[] f) throws Exception {
        each(f, "1", (i, cf, key) -> raw(0x05, cf, Arrays.copyOf(key, key.length + 8), value(i, 10, 100)));
    }

    /** timed FAMILY PREFIX FROM TO STEP SMALLEST LARGEST AGE: puts of values that were written so many seconds ago. */
    private void timed(String[] f) throws Exception {
        int from = Integer.parseInt(f[6]);
        int to = Integer.parseInt(f[7]);
        long time = System.currentTimeMillis() / 1000 - Long.parseLong(f[8]);
        each(f, f[5], (i, cf, key) -> {
            byte[] value = value(i, from, to);
            ByteBuffer timed = ByteBuffer.allocate(value.length + 8).order(ByteOrder.LITTLE_ENDIAN);
            raw(0x18, cf, key, timed.put(value).putLong(time).array());
        });
    }

    /** A batch of one operation with a family; the tag of the same without a family is given by RocksDB's `kType...`. */
    private void raw(int tag, ColumnFamilyHandle family, byte[] key, byte[] value) throws Exception {
        ByteArrayOutputStream batch = new ByteArrayOutputStream();
        batch.write(new byte[8]);
        batch.write(new byte[] {1, 0, 0, 0});
        batch.write(tag == 0x16 || tag == 0x18 ? tag + 1 : tag);
        varint(batch, family.getID());
        prefixed(batch, key);
        prefixed(batch, value);
        write(new WriteBatch(batch.toByteArray()));
    }

    private static void varint(ByteArrayOutputStream to, int n) {
        for (; n >= 128; n >>>= 7) {
            to.write(n & 127 | 128);
        }
        to.write(n);
    }

    private static void prefixed(ByteArrayOutputStream to, byte[] bytes) throws IOException {
        varint(to, bytes.length);
        to.write(bytes);
    }

    // Files.

    private void flush() throws RocksDBException {
        try (FlushOptions options = new FlushOptions().setWaitForFlush(true)) {
            db.flush(options, new ArrayList<>(families.values()));
        }
    }

    /** compact [bottommost] */
    private void compact(String[] f) throws RocksDBException {
        try (CompactRangeOptions options = new CompactRangeOptions()) {
            if (f.length > 1) {
                options.setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce);
            }
            for (ColumnFamilyHandle family : families.values()) {
                db.compactRange(family, null, null, options);
            }
        }
    }

    /** drop-files FAMILY PREFIX FROM TO */
    private void dropFiles(String[] f) throws RocksDBException {
        byte[] from = key(f[2], Integer.parseInt(f[3]));
        byte[] to = key(f[2], Integer.parseInt(f[4]));
        db.deleteFilesInRanges(family(f[1]), Arrays.asList(from, to), false);
    }

    /** create FAMILY OPTIONS */
    private void create(String[] f) throws RocksDBException {
        families.put(f[1], db.createColumnFamily(descriptor(f[1], f[2])));
    }

    private void drop(String[] f) throws RocksDBException {
        ColumnFamilyHandle family = families.remove(f[1]);
        db.dropColumnFamily(family);
        family.close();
    }

    /** ingest FAMILY PREFIX FROM TO OPTIONS FILE HOW, where HOW is any of move, behind, seqno, joined by commas. */
    private void ingest(String[] f) throws Exception {
        Set<String> how = new HashSet<>(Arrays.asList(f[7].split(",")));
        ColumnFamilyDescriptor descriptor = descriptor(f[1], f[5]);
        try (Options options = new Options(new DBOptions(), descriptor.getOptions());
                SstFileWriter file = new SstFileWriter(new EnvOptions(), options);
                IngestExternalFileOptions ingesting = new IngestExternalFileOptions()) {
            file.open(f[6]);
            each(f, "1", (i, cf, key) -> {
                if (i % 10 == 9) {
                    file.delete(key);
                } else {
                    file.put(key, value(i, 10, 300));
                }
            });
            file.finish();
            ingesting.setMoveFiles(how.contains("move"));
            ingesting.setIngestBehind(how.contains("behind"));
            ingesting.setWriteGlobalSeqno(how.contains("seqno"));
            db.ingestExternalFile(family(f[1]), Collections.singletonList(f[6]), ingesting);
        }
    }

    /** export FAMILY DIR */
    private void export(String[] f) throws Exception {
        try (Checkpoint checkpoint = Checkpoint.create(db)) {
            Method call = Checkpoint.class.getMethod("exportColumnFamily", ColumnFamilyHandle.class, String.class);
            exports.put(f[2], call.invoke(checkpoint, family(f[1]), f[2]));
        }
    }

    /** import FAMILY OPTIONS DIR */
    private void importFamily(String[] f) throws Exception {
        Object exported = exports.get(f[3]);
        Class<?> options = Class.forName("org.rocksdb.ImportColumnFamilyOptions");
        Method call = RocksDB.class.getMethod(
                "createColumnFamilyWithImport", ColumnFamilyDescriptor.class, options, exported.getClass());
        Object made = call.invoke(db, descriptor(f[1], f[2]), options.getConstructor().newInstance(), exported);
        families.put(f[1], (ColumnFamilyHandle) made);
    }

    private void checkpoint(String[] f) throws RocksDBException {
        try (Checkpoint checkpoint = Checkpoint.create(db)) {
            checkpoint.createCheckpoint(f[1]);
        }
    }

    /** backup DIR RESTORED: makes a backup and restores it. */
    private void backup(String[] f) throws Exception {
        new File(f[1]).mkdirs();
        Class<?> options;
        try {
            options = Class.forName("org.rocksdb.BackupEngineOptions");
        } catch (ClassNotFoundException e) {
            // Its name until 6.29.
            options = Class.forName("org.rocksdb.BackupableDBOptions");
        }
        Object set = options.getConstructor(String.class).newInstance(f[1]);
        Method open = BackupEngine.class.getMethod("open", Env.class, options);
        try (BackupEngine engine = (BackupEngine) open.invoke(null, Env.getDefault(), set);
                RestoreOptions restoring = new RestoreOptions(false)) {
            engine.createNewBackup(db, false);
            engine.restoreDbFromLatestBackup(f[2], f[2], restoring);
        }
    }

    // Transactions. tfill FAMILY PREFIX FROM TO STEP TRANSACTION

    /** begin TRANSACTION */
    private void begin(String[] f) throws RocksDBException {
        if (db instanceof TransactionDB) {
            Transaction begun = ((TransactionDB) db).beginTransaction(writes);
            begun.setName(f[1]);
            transactions.put(f[1], begun);
        } else {
            transactions.put(f[1], ((OptimisticTransactionDB) db).beginTransaction(writes));
        }
    }

    /** Not public in older releases. */
    private static void prepare(Transaction transaction) throws Exception {
        Method prepare = Transaction.class.getDeclaredMethod("prepare");
        prepare.setAccessible(true);
        prepare.invoke(transaction);
    }

    private Transaction end(String name) {
        Transaction ended = transactions.remove(name);
        if (ended != null || !(db instanceof TransactionDB)) {
            return ended;
        }
        // A transaction of an earlier opening.
        for (Transaction prepared : ((TransactionDB) db).getAllPreparedTransactions()) {
            if (prepared.getName().equals(name)) {
                return prepared;
            }
        }
        throw new IllegalArgumentException("no transaction " + name);
    }

    // Reading.

    /**
     * dump FILE: what an iterator finds. For each family 'F' and its name, for each of its entries
     * 'E', key and value, in order; at last '.'. Bytes have their length before them, 4 bytes, big-endian.
     */
    private void dump(String to) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(to)))) {
            for (Map.Entry<String, ColumnFamilyHandle> family : families.entrySet()) {
                out.write('F');
                bytes(out, family.getKey().getBytes(StandardCharsets.UTF_8));
                try (ReadOptions options = new ReadOptions().setTotalOrderSeek(true);
                        RocksIterator it = db.newIterator(family.getValue(), options)) {
                    for (it.seekToFirst(); it.isValid(); it.next()) {
                        out.write('E');
                        bytes(out, it.key());
                        bytes(out, it.value());
                    }
                    it.status();
                }
            }
            out.write('.');
        }
    }

    private static void bytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
