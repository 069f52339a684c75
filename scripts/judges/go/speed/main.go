// Speed of client-go's calls on nodes that run side by side.
//
//	speed NAME=ADDRESS=PID[,PID]...
//	speed creates NAME=ADDRESS=PID[,PID]...
//
// With creates, each node gets 100,000 files in one directory instead, one by one, as a file system
// makes them: what the thousands cost at the beginning, in the middle and at the end.
//
// Each kind of operation runs on all nodes in turn, in several rounds. For each it prints the rate
// and the processor time of the node's processes: the median of the rounds, the lowest and highest
// in brackets, and both as ratios to the first node.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const rounds = 5
const rows = 10000

type node struct {
	name   string
	client *txnkv.Client
	conn   *grpc.ClientConn
	pids   []string
}

type operation struct {
	name    string
	workers int
	count   int
	run     func(n *node, i int) error
}

type result struct{ rate, micros float64 }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The processor time of the node's processes.
func (n *node) cpu() time.Duration {
	var ticks int
	for _, pid := range n.pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		must(err)
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
		for _, at := range []int{11, 12} {
			more, err := strconv.Atoi(fields[at])
			must(err)
			ticks += more
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func key(i int) []byte { return []byte(fmt.Sprintf("row%08d", i)) }

func (n *node) write(pairs map[string][]byte) error {
	t, err := n.client.Begin()
	if err != nil {
		return err
	}
	for k, v := range pairs {
		must(t.Set([]byte(k), v))
	}
	return t.Commit(context.Background())
}

func (n *node) load() {
	for from := 0; from < rows; from += 1000 {
		pairs := map[string][]byte{}
		for i := from; i < from+1000; i++ {
			pairs[string(key(i))] = make([]byte, 100)
		}
		must(n.write(pairs))
	}
	for i := 0; i < 16; i++ {
		must(n.write(map[string][]byte{fmt.Sprintf("large%d", i): make([]byte, 64<<10)}))
	}
}

func (n *node) get(k []byte) error {
	ts, err := n.client.CurrentTimestamp("global")
	if err != nil {
		return err
	}
	_, err = n.client.GetSnapshot(ts).Get(context.Background(), k)
	return err
}

func (n *node) scan() error {
	ts, err := n.client.CurrentTimestamp("global")
	if err != nil {
		return err
	}
	snapshot := n.client.GetSnapshot(ts)
	snapshot.SetScanBatchSize(1024)
	it, err := snapshot.Iter([]byte("row"), []byte("rox"))
	if err != nil {
		return err
	}
	seen := 0
	for ; it.Valid(); seen++ {
		if err := it.Next(); err != nil {
			return err
		}
	}
	if seen != rows {
		return fmt.Errorf("%d rows", seen)
	}
	return nil
}

// A call by itself of the same transport, with and without a read.
func (n *node) bare(at uint64) func(*node, int) error {
	location, err := n.client.GetRegionCache().LocateKey(tikv.NewBackoffer(context.Background(), 5000), key(0))
	must(err)
	region := &kvrpcpb.Context{
		RegionId:    location.Region.GetID(),
		RegionEpoch: &metapb.RegionEpoch{ConfVer: location.Region.GetConfVer(), Version: location.Region.GetVer()},
	}
	meta, err := n.client.GetPDClient().GetRegionByID(context.Background(), region.RegionId)
	must(err)
	region.Peer = meta.Leader
	calls := tikvpb.NewTikvClient(n.conn)
	return func(_ *node, i int) error {
		answer, err := calls.KvGet(context.Background(), &kvrpcpb.GetRequest{
			Context: region, Key: key(i % rows), Version: at,
		})
		if err == nil && len(answer.Value) != 100 {
			return fmt.Errorf("%v", answer)
		}
		return err
	}
}

var next int64

func measure(n *node, op operation) result {
	var wait sync.WaitGroup
	var at int64
	began, cpu := time.Now(), n.cpu()
	for w := 0; w < op.workers; w++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for {
				i := int(atomic.AddInt64(&at, 1))
				if i > op.count {
					return
				}
				must(op.run(n, i))
			}
		}()
	}
	wait.Wait()
	count := float64(op.count)
	return result{
		rate:   count / time.Since(began).Seconds(),
		micros: float64((n.cpu() - cpu).Microseconds()) / count,
	}
}

func middle(of []result, field func(result) float64) (float64, string) {
	var all []float64
	for _, one := range of {
		all = append(all, field(one))
	}
	sort.Float64s(all)
	median := all[len(all)/2]
	return median, fmt.Sprintf("%.0f [%.0f to %.0f]", median, all[0], all[len(all)-1])
}

// Creates a file: rewrites the row of the directory, and adds two rows of the file.
func (n *node) create(i int) error {
	t, err := n.client.Begin()
	if err != nil {
		return err
	}
	directory := []byte("directory")
	if _, err := t.Get(context.Background(), directory); err != nil && i > 1 {
		return err
	}
	must(t.Set(directory, []byte(fmt.Sprintf("%d files", i))))
	must(t.Set([]byte(fmt.Sprintf("entry%09d", i)), make([]byte, 16)))
	must(t.Set([]byte(fmt.Sprintf("inode%09d", i)), make([]byte, 100)))
	return t.Commit(context.Background())
}

func creates(n *node) {
	const all, thousand = 100000, 1000
	fmt.Println("creates in one directory on", n.name)
	for from := 0; from < all; from += thousand {
		one := operation{"create", 1, thousand, func(n *node, i int) error { return n.create(from + i) }}
		cost := measure(n, one)
		if from%(all/10) == 0 || from+thousand == all {
			fmt.Printf("  %6d to %6d: %.0f a second, %.0f us of the node's processors\n",
				from+1, from+thousand, cost.rate, cost.micros)
		}
	}
}

func main() {
	var nodes []*node
	arguments := os.Args[1:]
	justCreates := len(arguments) > 0 && arguments[0] == "creates"
	if justCreates {
		arguments = arguments[1:]
	}
	for _, argument := range arguments {
		parts := strings.Split(argument, "=")
		client, err := txnkv.NewClient([]string{parts[1]})
		must(err)
		conn, err := grpc.Dial(parts[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(err)
		nodes = append(nodes, &node{parts[0], client, conn, strings.Split(parts[2], ",")})
	}
	if justCreates {
		for _, n := range nodes {
			creates(n)
		}
		return
	}
	for _, n := range nodes {
		n.load()
	}
	two := func(n *node, i int) error {
		more := atomic.AddInt64(&next, 1)
		a, b := fmt.Sprintf("a%09d", more), fmt.Sprintf("b%09d", more)
		return n.write(map[string][]byte{a: make([]byte, 100), b: make([]byte, 100)})
	}
	operations := []operation{
		{"point read, 1 client", 1, 4000, func(n *node, i int) error { return n.get(key(i * 7919 % rows)) }},
		{"point read, 16 clients", 16, 20000, func(n *node, i int) error { return n.get(key(i * 7919 % rows)) }},
		{"commit of two keys, 1 client", 1, 500, two},
		{"commit of two keys, 16 clients", 16, 4000, two},
		{"scan of 10,000 rows", 1, 20, func(n *node, i int) error { return n.scan() }},
		{"get of 64 KiB", 4, 2000, func(n *node, i int) error { return n.get([]byte(fmt.Sprintf("large%d", i%16))) }},
		{"put of 64 KiB", 4, 400, func(n *node, i int) error {
			return n.write(map[string][]byte{fmt.Sprintf("large%d", 100+i%200): make([]byte, 64<<10)})
		}},
	}
	for _, op := range operations {
		results := make([][]result, len(nodes))
		for round := 0; round < rounds; round++ {
			for at, n := range nodes {
				results[at] = append(results[at], measure(n, op))
			}
		}
		fmt.Println(op.name)
		var first result
		for at, n := range nodes {
			rate, rates := middle(results[at], func(r result) float64 { return r.rate })
			micros, times := middle(results[at], func(r result) float64 { return r.micros })
			if at == 0 {
				first = result{rate, micros}
			}
			fmt.Printf("  %-8s %s a second (%.2f x), %s us of the node's processors (%.2f x)\n",
				n.name, rates, rate/first.rate, times, micros/first.micros)
		}
	}
	empty(nodes[0])
}

// Compares a read with an empty call, each a unary call by itself, on one node.
func empty(n *node) {
	ts, err := n.client.CurrentTimestamp("global")
	must(err)
	health := grpc_health_v1.NewHealthClient(n.conn)
	calls := []operation{
		{"an empty call", 1, 5000, func(n *node, i int) error {
			_, err := health.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
			return err
		}},
		{"a point read", 1, 5000, n.bare(ts)},
	}
	results := make([][]result, len(calls))
	for round := 0; round < rounds; round++ {
		for at, op := range calls {
			results[at] = append(results[at], measure(n, op))
		}
	}
	fmt.Println("unary calls on", n.name)
	for at, op := range calls {
		_, rates := middle(results[at], func(r result) float64 { return r.rate })
		_, times := middle(results[at], func(r result) float64 { return r.micros })
		fmt.Printf("  %-14s %s a second, %s us of the node's processors\n", op.name, rates, times)
	}
}
