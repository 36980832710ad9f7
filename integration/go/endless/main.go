// A stream without an end. What comes out is written to files, where it can be checked.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
)

const size = 20 * time.Second

var (
	folder  = flag.String("folder", "", "where what comes out is written to")
	deadly  = flag.Int("deadly", 60, "the number of the first source that kills its process once")
	bounded = flag.Int("bounded", 2000, "how many numbers the source with an end has")
	// The runner reads these.
	_ = flag.String("spark_master_url", "", "where Spark is")
	_ = flag.String("checkpoint_dir", "", "where checkpoints go")
	_ = flag.Int("checkpoint_ms", 1000, "milliseconds between two checkpoints")
	_ = flag.Int("slots", 2, "parts of each stage")
)

func init() {
	register.DoFn5x1[context.Context, *sdf.ManualWatermarkEstimator, *sdf.LockRTracker, string, func(beam.EventTime, string, int), sdf.ProcessContinuation](&numbers{})
	register.DoFn3x0[*sdf.LockRTracker, int, func(string, int)](&span{})
	register.DoFn3x0[string, int, func(string, int)](&dies{})
	register.DoFn5x0[state.Provider, timers.Provider, string, int, func(string)](&remember{})
	register.DoFn5x0[beam.Window, string, func(*int) bool, func(*string, *int) bool, func(string)](&compare{})
	register.Emitter1[string]()
	register.Emitter2[string, int]()
	register.Emitter3[beam.EventTime, string, int]()
	register.Iter1[int]()
	register.Iter2[string, int]()
}

var writing sync.Mutex

// Writes a line down, in a file of this process.
func note(folder, kind string, words ...any) {
	writing.Lock()
	defer writing.Unlock()
	name := filepath.Join(folder, fmt.Sprintf("%s-%d", kind, os.Getpid()))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintln(file, words...)
	must(err)
	must(file.Close())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func second(number int64) time.Time {
	return time.Unix(number, 0)
}

// 0, 1, 2, ... for ever, ten at a time, one a second of event time.
type numbers struct {
	Folder string
}

var counted = beam.NewCounter("endless", "read")

func (*numbers) CreateInitialRestriction(_ string) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: math.MaxInt64}
}

func (*numbers) SplitRestriction(_ string, whole offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{whole}
}

func (*numbers) RestrictionSize(_ string, part offsetrange.Restriction) float64 {
	return part.Size()
}

func (*numbers) CreateTracker(part offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(part))
}

// To the end of the hundred.
func (*numbers) TruncateRestriction(tracker *sdf.LockRTracker, _ string) offsetrange.Restriction {
	begin := tracker.GetRestriction().(offsetrange.Restriction).Start
	return offsetrange.Restriction{Start: begin, End: (begin/100 + 1) * 100}
}

func (*numbers) InitialWatermarkEstimatorState(_ beam.EventTime, _ offsetrange.Restriction, _ string) int64 {
	return math.MinInt64
}

func (*numbers) CreateWatermarkEstimator(number int64) *sdf.ManualWatermarkEstimator {
	if number == math.MinInt64 {
		return &sdf.ManualWatermarkEstimator{State: mtime.MinTimestamp.ToTime()}
	}
	return &sdf.ManualWatermarkEstimator{State: second(number)}
}

func (*numbers) WatermarkEstimatorState(estimator *sdf.ManualWatermarkEstimator) int64 {
	if estimator.State.Equal(mtime.MinTimestamp.ToTime()) {
		return math.MinInt64
	}
	return estimator.State.Unix()
}

func (fn *numbers) ProcessElement(ctx context.Context, watermark *sdf.ManualWatermarkEstimator, tracker *sdf.LockRTracker, source string, emit func(beam.EventTime, string, int)) sdf.ProcessContinuation {
	number := tracker.GetRestriction().(offsetrange.Restriction).Start
	for tracker.TryClaim(number) {
		note(fn.Folder, "read", source, number)
		emit(mtime.FromTime(second(number)), source, int(number))
		counted.Inc(ctx, 1)
		number++
		watermark.UpdateWatermark(second(number))
		if number%10 == 0 {
			return sdf.ResumeProcessingIn(50 * time.Millisecond)
		}
	}
	return sdf.StopProcessing()
}

// The numbers of a range, some time apart; the range can be split.
type span struct{}

func (*span) CreateInitialRestriction(end int) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: int64(end)}
}

func (*span) SplitRestriction(_ int, whole offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{whole}
}

func (*span) RestrictionSize(_ int, part offsetrange.Restriction) float64 {
	return part.Size()
}

func (*span) CreateTracker(part offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(part))
}

func (*span) ProcessElement(tracker *sdf.LockRTracker, _ int, emit func(string, int)) {
	for next := tracker.GetRestriction().(offsetrange.Restriction).Start; tracker.TryClaim(next); next++ {
		time.Sleep(2 * time.Millisecond)
		emit("range", int(next))
	}
}

// Ends its process at a number, once.
type dies struct {
	Folder string
	Deadly int
}

func (fn *dies) ProcessElement(key string, number int, emit func(string, int)) {
	mark := filepath.Join(fn.Folder, "killed")
	if _, err := os.Stat(mark); key == "a" && number == fn.Deadly && err != nil {
		must(os.WriteFile(mark, nil, 0o600))
		os.Exit(9)
	}
	emit(key, number)
}

// Tells of each key at the end of time how many numbers it has had, and more.
type remember struct {
	Folder   string
	Count    state.Value[int]
	Sum      state.Combining[int, int, int]
	Digits   state.Map[int, int]
	Hundreds state.Bag[int]
	End      timers.EventTime
	Soon     timers.ProcessingTime
}

func remembering() *remember {
	return &remember{
		Folder:   *folder,
		Count:    state.MakeValueState[int]("count"),
		Sum:      state.MakeCombiningState[int, int, int]("sum", func(a, b int) int { return a + b }),
		Digits:   state.MakeMapState[int, int]("digits"),
		Hundreds: state.MakeBagState[int]("hundreds"),
		End:      timers.InEventTime("end"),
		Soon:     timers.InProcessingTime("soon"),
	}
}

func (fn *remember) ProcessElement(s state.Provider, t timers.Provider, _ string, number int, _ func(string)) {
	count, _, err := fn.Count.Read(s)
	must(err)
	must(fn.Count.Write(s, count+1))
	must(fn.Sum.Add(s, number))
	same, _, err := fn.Digits.Get(s, number%10)
	must(err)
	must(fn.Digits.Put(s, number%10, same+1))
	fn.End.Set(t, second(1_000_000_000))
	if number%100 == 0 {
		fn.Soon.Set(t, time.Now().Add(300*time.Millisecond), timers.WithTag(strconv.Itoa(number)))
	}
}

func (fn *remember) OnTimer(_ context.Context, _ beam.EventTime, s state.Provider, t timers.Provider, key string, timer timers.Context, _ func(string)) {
	switch {
	case timer.Family == fn.End.Family:
		count, _, err := fn.Count.Read(s)
		must(err)
		sum, _, err := fn.Sum.Read(s)
		must(err)
		words := []any{key, count, sum}
		for digit := range 10 {
			same, _, err := fn.Digits.Get(s, digit)
			must(err)
			words = append(words, same)
		}
		note(fn.Folder, "sum", words...)
		// Time of the clock comes after that of events in a drain.
		fn.Soon.Set(t, time.Now().Add(300*time.Millisecond), timers.WithTag("told"))
	case timer.Tag == "told":
		hundreds, _, err := fn.Hundreds.Read(s)
		must(err)
		note(fn.Folder, "hundreds", key, line(hundreds))
	default:
		hundred, err := strconv.Atoi(timer.Tag)
		must(err)
		must(fn.Hundreds.Add(s, hundred))
	}
}

// Writes the group of a window down, with the sum that a side input has of it.
type compare struct {
	Folder string
}

func (fn *compare) ProcessElement(w beam.Window, key string, group func(*int) bool, sums func(*string, *int) bool, _ func(string)) {
	start := w.(window.IntervalWindow).Start.Milliseconds() / 1000
	var of string
	var number, sum int
	var found []int
	for group(&number) {
		found = append(found, number)
	}
	note(fn.Folder, "window", key, start, line(found))
	for sums(&of, &sum) {
		if of == key {
			note(fn.Folder, "aside", key, start, sum)
		}
	}
}

func line(numbers []int) string {
	slices.Sort(numbers)
	var words []string
	for _, number := range numbers {
		words = append(words, strconv.Itoa(number))
	}
	return strings.Join(words, " ")
}

func main() {
	flag.Parse()
	beam.Init()
	pipeline, scope := beam.NewPipelineWithRoot()
	read := beam.ParDo(scope, &numbers{*folder}, beam.Create(scope, "a", "b", "c"))
	pairs := beam.ParDo(scope, &dies{*folder, *deadly}, read)
	beam.ParDo(scope, remembering(), pairs)
	beam.ParDo(scope, remembering(), beam.ParDo(scope, &span{}, beam.Create(scope, *bounded)))

	windows := beam.WindowInto(scope, window.NewFixedWindows(size), pairs)
	sums := stats.SumPerKey(scope, windows)
	beam.ParDo(scope, &compare{*folder}, beam.GroupByKey(scope, windows), beam.SideInput{Input: sums})

	if _, err := beam.Run(context.Background(), "universal", pipeline); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
