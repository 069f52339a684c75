// Calls of client-go on a node: prints a line a check, and "N passed, N failed".
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tikv/client-go/v2/config"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/rawkv"
	"github.com/tikv/client-go/v2/txnkv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

var passed, failed int

func check(name string, err error) {
	if err != nil {
		failed++
		fmt.Println("FAIL", name, err)
		return
	}
	passed++
	fmt.Println("ok  ", name)
}
func want(ok bool, format string, a ...interface{}) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, a...)
}
func must(err error) {
	if err != nil {
		panic(err)
	}
}
func put(c *txnkv.Client, kvs ...string) error {
	t, err := c.Begin()
	if err != nil {
		return err
	}
	for i := 0; i < len(kvs); i += 2 {
		must(t.Set([]byte(kvs[i]), []byte(kvs[i+1])))
	}
	return t.Commit(context.Background())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 180*time.Second)
	defer cancel()
	addr := []string{os.Args[1]}
	if len(os.Args) > 4 {
		// The files of an authority, of a certificate and of its key.
		config.UpdateGlobal(func(c *config.Config) {
			c.Security = config.NewSecurity(os.Args[2], os.Args[3], os.Args[4], nil)
		})
	}
	c, err := txnkv.NewClient(addr)
	check("connect", err)
	must(err)
	check("put", put(c, "a", "1", "b", "2", "c", "3", "d", "4"))
	t, _ := c.Begin()
	v, err := t.Get(ctx, []byte("a"))
	check("get", err)
	check("value", want(string(v) == "1", "%q", v))
	_, err = t.Get(ctx, []byte("none"))
	check("missing", want(tikverr.IsErrNotFound(err), "%v", err))
	m, err := t.BatchGet(ctx, [][]byte{[]byte("a"), []byte("none"), []byte("d")})
	check("batch get", want(err == nil && len(m) == 2, "%v %v", m, err))
	it, err := t.Iter([]byte("b"), []byte("d"))
	check("iter", err)
	n := 0
	for it.Valid() {
		n++
		must(it.Next())
	}
	check("iter rows", want(n == 2, "%d", n))
	it, err = t.IterReverse([]byte("d"))
	check("reverse", err)
	n = 0
	var first []byte
	for it.Valid() {
		if n == 0 {
			first = it.Key()
		}
		n++
		must(it.Next())
	}
	check("reverse rows", want(n == 3 && string(first) == "c", "%d %q", n, first))
	// conflict
	t1, _ := c.Begin()
	t2, _ := c.Begin()
	must(t1.Set([]byte("x"), []byte("1")))
	must(t2.Set([]byte("x"), []byte("2")))
	check("first commits", t1.Commit(ctx))
	err = t2.Commit(ctx)
	check("second conflicts", want(tikverr.IsErrWriteConflict(err), "%v", err))
	// async, 1pc
	for _, mode := range []string{"1pc", "async", "both", "causal"} {
		t, _ = c.Begin()
		if mode == "1pc" || mode == "both" {
			t.SetEnable1PC(true)
		}
		if mode != "1pc" {
			t.SetEnableAsyncCommit(true)
		}
		if mode == "causal" {
			t.SetCausalConsistency(true)
		}
		for i := 0; i < 10; i++ {
			must(t.Set([]byte(fmt.Sprintf("%s%d", mode, i)), []byte("v")))
		}
		check("commit "+mode, t.Commit(ctx))
		t, _ = c.Begin()
		v, err = t.Get(ctx, []byte(mode+"7"))
		check("read "+mode, want(err == nil && string(v) == "v", "%v", err))
	}
	// large transaction over many batches
	t, _ = c.Begin()
	big := bytes.Repeat([]byte("v"), 10000)
	for i := 0; i < 3000; i++ {
		must(t.Set([]byte(fmt.Sprintf("large%05d", i)), big))
	}
	check("large transaction", t.Commit(ctx))
	scanLarge := func(name string) {
		t, _ = c.Begin()
		it, err = t.Iter([]byte("large"), []byte("largf"))
		n = 0
		for err == nil && it.Valid() {
			n++
			err = it.Next()
		}
		check(name, want(n == 3000 && err == nil, "%d %v", n, err))
	}
	scanLarge("large scan")
	// split and go on
	_, err = c.SplitRegions(ctx, [][]byte{[]byte("large00100"), []byte("large02000")}, false, nil)
	check("split", err)
	scanLarge("scan over regions")
	it, err = t.IterReverse([]byte("largf"))
	n = 0
	for err == nil && it.Valid() && bytes.HasPrefix(it.Key(), []byte("large")) {
		n++
		err = it.Next()
	}
	check("reverse over regions", want(n == 3000 && err == nil, "%d %v", n, err))
	t, _ = c.Begin()
	for i := 0; i < 3000; i += 10 {
		must(t.Set([]byte(fmt.Sprintf("large%05d", i)), []byte("x")))
	}
	check("commit over regions", t.Commit(ctx))
	// pessimistic
	t1, _ = c.Begin()
	t1.SetPessimistic(true)
	lock := func(t *transaction.KVTxn, wait int64, keys ...string) error {
		fu, err := c.CurrentTimestamp("global")
		if err != nil {
			return err
		}
		lc := kv.NewLockCtx(fu, wait, time.Now())
		var ks [][]byte
		for _, k := range keys {
			ks = append(ks, []byte(k))
		}
		return t.LockKeys(ctx, lc, ks...)
	}
	check("lock", lock(t1, kv.LockNoWait, "p", "q"))
	t2, _ = c.Begin()
	t2.SetPessimistic(true)
	err = lock(t2, kv.LockNoWait, "p")
	check("lock held", want(err != nil, "no error"))
	done := make(chan error)
	go func() { done <- lock(t2, kv.LockAlwaysWait, "p") }()
	time.Sleep(300 * time.Millisecond)
	must(t1.Set([]byte("p"), []byte("first")))
	check("pessimistic commit", t1.Commit(ctx))
	err = <-done
	check("waited", want(err == nil || tikverr.IsErrWriteConflict(err), "%v", err))
	if err != nil {
		check("lock again", lock(t2, kv.LockAlwaysWait, "p"))
	}
	must(t2.Set([]byte("p"), []byte("second")))
	check("second pessimistic", t2.Commit(ctx))
	// deadlock
	t1, _ = c.Begin()
	t1.SetPessimistic(true)
	t2, _ = c.Begin()
	t2.SetPessimistic(true)
	must(lock(t1, kv.LockAlwaysWait, "dl1"))
	must(lock(t2, kv.LockAlwaysWait, "dl2"))
	go func() { done <- lock(t1, 5000, "dl2") }()
	time.Sleep(200 * time.Millisecond)
	err2 := lock(t2, 5000, "dl1")
	_, isDl := err2.(*tikverr.ErrDeadlock)
	fmt.Printf("     deadlock: %T\n", err2)
	_ = isDl
	check("deadlock", want(err2 != nil, "none"))
	must(t2.Rollback())
	check("survivor", <-done)
	must(t1.Rollback())
	// leftover locks: abandon after prewrite
	util := func(async bool) {
		t, _ = c.Begin()
		must(t.Set([]byte("left1"), []byte("v")))
		must(t.Set([]byte("left2"), []byte("v")))
		p := transaction.TxnProbe{KVTxn: t}
		com, err := p.NewCommitter(1)
		must(err)
		com.SetLockTTL(500)
		if async {
			com.SetUseAsyncCommit()
		}
		check("prewrite only", com.PrewriteAllMutations(ctx))
		t, _ = c.Begin()
		start := time.Now()
		_, err = t.Get(ctx, []byte("left2"))
		if async {
			check("async left is committed", want(err == nil, "%v", err))
		} else {
			check("left is rolled back", want(tikverr.IsErrNotFound(err), "%v", err))
		}
		fmt.Println("     after", time.Since(start))
	}
	util(false)
	util(true)
	// delete range
	_, err = c.DeleteRange(ctx, []byte("large"), []byte("largf"), 1)
	check("delete range", err)
	t, _ = c.Begin()
	it, err = t.Iter([]byte("large"), []byte("largf"))
	check("deleted", want(err == nil && !it.Valid(), "%v", err))
	// gc
	ts, _ := c.CurrentTimestamp("global")
	sp, err := c.GC(ctx, ts-(20<<18))
	check("gc", want(err == nil && sp > 0, "%v", err))
	check("put after gc", put(c, "a", "9"))
	// raw
	r, err := rawkv.NewClient(ctx, addr, config.GetGlobalConfig().Security)
	check("raw connect", err)
	must(err)
	check("raw put", r.Put(ctx, []byte("rk"), []byte("rv")))
	v, err = r.Get(ctx, []byte("rk"))
	check("raw get", want(err == nil && string(v) == "rv", "%q %v", v, err))
	v, err = r.Get(ctx, []byte("rnone"))
	check("raw missing", want(err == nil && v == nil, "%q %v", v, err))
	var ks, vs [][]byte
	for i := 0; i < 2000; i++ {
		ks = append(ks, []byte(fmt.Sprintf("r%05d", i)))
		vs = append(vs, bytes.Repeat([]byte("r"), 100))
	}
	check("raw batch put", r.BatchPut(ctx, ks, vs))
	got, err := r.BatchGet(ctx, ks)
	check("raw batch get", want(err == nil && len(got) == 2000 && len(got[1999]) == 100, "%v", err))
	sk, _, err := r.Scan(ctx, []byte("r00010"), []byte("r01000"), 500)
	check("raw scan", want(err == nil && len(sk) == 500, "%d %v", len(sk), err))
	sk, _, err = r.ReverseScan(ctx, []byte("r01000"), []byte("r00990"), 500)
	check("raw reverse scan", want(err == nil && len(sk) == 10, "%d %v", len(sk), err))
	check("raw put ttl", r.PutWithTTL(ctx, []byte("ttl"), []byte("v"), 1000))
	ttl, err := r.GetKeyTTL(ctx, []byte("ttl"))
	check("raw ttl", want(err == nil && ttl != nil && *ttl > 900, "%v", err))
	r.SetAtomicForCAS(true)
	prev, ok, err := r.CompareAndSwap(ctx, []byte("cas"), nil, []byte("1"))
	check("cas new", want(err == nil && ok && prev == nil, "%v %v %v", prev, ok, err))
	prev, ok, err = r.CompareAndSwap(ctx, []byte("cas"), []byte("0"), []byte("2"))
	check("cas fails", want(err == nil && !ok && string(prev) == "1", "%q %v %v", prev, ok, err))
	check("raw delete", r.Delete(ctx, []byte("rk")))
	check("raw delete range", r.DeleteRange(ctx, []byte("r00000"), []byte("r99999")))
	sk, _, err = r.Scan(ctx, []byte("r0"), []byte("r9"), 500)
	check("raw deleted", want(err == nil && len(sk) == 0, "%d %v", len(sk), err))
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
