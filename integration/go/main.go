// Groups, combines, side inputs, state, timers and a splittable DoFn; each checked in the pipeline.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
)

var (
	numbers = flag.Int("numbers", 10_000, "how many numbers are read")
	keys    = flag.Int("keys", 10, "how many keys they have")
	wrong   = flag.Bool("wrong", false, "whether a sum is expected that is wrong")
	mark    = flag.String("mark", "", "a file: a harness that does not find it writes it, and is killed amid the numbers")
)

func init() {
	register.DoFn3x0[*sdf.LockRTracker, int, func(int)](&read{})
	register.DoFn3x0[context.Context, int, func(string, int)](&byKey{})
	register.DoFn6x0[beam.Window, state.Provider, timers.Provider, string, int, func(string)](&remember{})
	register.Function2x1(told)
	register.Function2x2(size)
	register.Function3x1(compare)
	register.Emitter1[int]()
	register.Emitter1[string]()
	register.Emitter2[string, int]()
	register.Iter1[int]()
	register.Iter2[string, int]()
}

// The numbers of a range; the range can be split.
type read struct{}

func (*read) CreateInitialRestriction(end int) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: int64(end)}
}

func (*read) SplitRestriction(_ int, whole offsetrange.Restriction) []offsetrange.Restriction {
	return whole.EvenSplits(4)
}

func (*read) RestrictionSize(_ int, part offsetrange.Restriction) float64 {
	return part.Size()
}

func (*read) CreateTracker(part offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(part))
}

func (*read) ProcessElement(tracker *sdf.LockRTracker, _ int, emit func(int)) {
	for next := tracker.GetRestriction().(offsetrange.Restriction).Start; tracker.TryClaim(next); next++ {
		emit(int(next))
	}
}

// Gives each number a key. At one of them, its process is killed once.
type byKey struct {
	Keys   int
	Deadly int
	Mark   string
}

var counted = beam.NewCounter("exact", "read")

func (fn *byKey) ProcessElement(ctx context.Context, number int, emit func(string, int)) {
	if _, err := os.Stat(fn.Mark); number == fn.Deadly && fn.Mark != "" && err != nil {
		must(os.WriteFile(fn.Mark, []byte(strconv.Itoa(os.Getpid())), 0o600))
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	if number == fn.Deadly {
		log.Warn(ctx, "halfway")
	}
	counted.Inc(ctx, 1)
	emit(fmt.Sprintf("key %d", number%fn.Keys), number)
}

// Keeps the numbers of a key, and tells their count and sum when the window ends.
type remember struct {
	Sum state.Value[int]
	All state.Bag[int]
	End timers.EventTime
}

func (fn *remember) ProcessElement(window beam.Window, s state.Provider, t timers.Provider, _ string, number int, _ func(string)) {
	sum, _, err := fn.Sum.Read(s)
	must(err)
	must(fn.Sum.Write(s, sum+number))
	must(fn.All.Add(s, number))
	fn.End.Set(t, window.MaxTimestamp().ToTime())
}

func (fn *remember) OnTimer(_ context.Context, _ beam.EventTime, s state.Provider, _ timers.Provider, key string, _ timers.Context, emit func(string)) {
	all, _, err := fn.All.Read(s)
	must(err)
	sum, _, err := fn.Sum.Read(s)
	must(err)
	again := 0
	for _, number := range all {
		again += number
	}
	if again != sum {
		emit(fmt.Sprintf("%s: sum %d, not %d", key, again, sum))
	}
	emit(fmt.Sprintf("%s: %d numbers, sum %d", key, len(all), sum))
	must(fn.Sum.Clear(s))
	must(fn.All.Clear(s))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func told(key string, number int) string {
	return fmt.Sprintf("%s: %d", key, number)
}

func size(key string, numbers func(*int) bool) (string, int) {
	var number, count int
	for numbers(&number) {
		count++
	}
	return key, count
}

func compare(key string, _ int, sums func(*string, *int) bool) string {
	var of string
	var sum int
	for sums(&of, &sum) {
		if of == key {
			return told(of, sum)
		}
	}
	return key + " has no sum"
}

func main() {
	flag.Parse()
	beam.Init()
	pipeline, scope := beam.NewPipelineWithRoot()
	all := beam.ParDo(scope, &read{}, beam.Create(scope, *numbers))
	pairs := beam.ParDo(scope, &byKey{Keys: *keys, Deadly: *numbers / 2, Mark: *mark}, all)

	var sums, counts, remembered []any
	for key := range *keys {
		count, sum := 0, 0
		for number := key; number < *numbers; number += *keys {
			count++
			sum += number
		}
		name := fmt.Sprintf("key %d", key)
		counts = append(counts, told(name, count))
		remembered = append(remembered, fmt.Sprintf("%s: %d numbers, sum %d", name, count, sum))
		if *wrong {
			sum++
		}
		sums = append(sums, told(name, sum))
	}

	combined := stats.SumPerKey(scope, pairs)
	passert.Equals(scope.Scope("sums"), beam.ParDo(scope, told, combined), sums...)
	grouped := beam.ParDo(scope, size, beam.GroupByKey(scope, pairs))
	passert.Equals(scope.Scope("groups"), beam.ParDo(scope, told, grouped), counts...)
	aside := beam.ParDo(scope, compare, grouped, beam.SideInput{Input: combined})
	passert.Equals(scope.Scope("side inputs"), aside, sums...)
	fn := &remember{
		Sum: state.MakeValueState[int]("sum"),
		All: state.MakeBagState[int]("all"),
		End: timers.InEventTime("end"),
	}
	passert.Equals(scope.Scope("state"), beam.ParDo(scope, fn, pairs), remembered...)

	result, err := beam.Run(context.Background(), "universal", pipeline)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	found := result.Metrics().Query(func(result metrics.SingleResult) bool { return result.Name() == "read" })
	for _, counter := range found.Counters() {
		fmt.Println("read", counter.Result())
	}
}
