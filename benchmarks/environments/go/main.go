// The jobs of benchmarks/jobs that are run in every SDK; each ends in a file with sums.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
)

const (
	shards = 8
	maps   = 5
	stride = 7919
	values = 1000
)

var (
	job      = flag.String("job", "", "read, chain, group, state or timers")
	elements = flag.Int("elements", 1000, "how many elements there are")
	keys     = flag.Int("keys", 1, "how many keys they have")
	out      = flag.String("out", "", "where the sums go")
	fires    = time.Unix(2_000_000, 0)
)

func init() {
	register.DoFn3x0[context.Context, []byte, func(int, int)](&spans{})
	register.Function3x0(number)
	register.Function1x1(addOne)
	register.DoFn3x0[int, int, func(string, []byte)](&pairs{})
	register.DoFn3x0[int, int, func(string, int)](&keyed{})
	register.DoFn4x0[state.Provider, string, int, func(string, int)](&running{})
	register.DoFn5x0[state.Provider, timers.Provider, string, int, func(string, int)](&sums{})
	register.DoFn2x0[int, func(int, int)](&foldNumbers{})
	register.DoFn3x0[string, int, func(int, int)](&foldSums{})
	register.DoFn3x0[string, func(*[]byte) bool, func(int, int)](&foldGroups{})
	register.Function2x1(told)
	register.DoFn2x1[int, func(*string) bool, error](&save{})
	register.Emitter1[int]()
	register.Emitter2[int, int]()
	register.Emitter2[string, int]()
	register.Emitter2[string, []byte]()
	register.Iter1[[]byte]()
	register.Iter1[string]()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func crc(key string) int {
	return int(crc32.ChecksumIEEE([]byte(key)))
}

// The spans of numbers, which are spread.
type spans struct {
	N int
}

func (fn *spans) ProcessElement(_ context.Context, _ []byte, emit func(int, int)) {
	for shard := range shards {
		emit(fn.N*shard/shards, fn.N*(shard+1)/shards)
	}
}

func number(from, to int, emit func(int)) {
	for i := from; i < to; i++ {
		emit(i)
	}
}

func addOne(number int) int {
	return number + 1
}

type pairs struct {
	Keys int
}

func (fn *pairs) ProcessElement(from, to int, emit func(string, []byte)) {
	for i := from; i < to; i++ {
		emit(fmt.Sprintf("k%07d", i*stride%fn.Keys), fmt.Appendf(nil, "%020d", i))
	}
}

type keyed struct {
	Keys  int
	Equal bool
}

func (fn *keyed) ProcessElement(from, to int, emit func(string, int)) {
	for i := from; i < to; i++ {
		value := i
		if fn.Equal {
			value = i % fn.Keys
		}
		emit(fmt.Sprintf("k%06d", i%fn.Keys), value%values)
	}
}

type running struct {
	Sum state.Value[int]
}

func (fn *running) ProcessElement(s state.Provider, key string, value int, emit func(string, int)) {
	before, _, err := fn.Sum.Read(s)
	check(err)
	check(fn.Sum.Write(s, before+value))
	emit(key, before+value)
}

type sums struct {
	Sum state.Value[int]
	End timers.EventTime
}

func (fn *sums) ProcessElement(s state.Provider, t timers.Provider, _ string, value int, _ func(string, int)) {
	before, _, err := fn.Sum.Read(s)
	check(err)
	check(fn.Sum.Write(s, before+value))
	fn.End.Set(t, fires)
}

func (fn *sums) OnTimer(_ context.Context, _ beam.EventTime, s state.Provider, _ timers.Provider, key string, _ timers.Context, emit func(string, int)) {
	sum, _, err := fn.Sum.Read(s)
	check(err)
	emit(key, sum)
	check(fn.Sum.Clear(s))
}

// Adds up, in a bundle, how many elements there are and what they are measured as.
type fold struct {
	columns [4]int
}

func (f *fold) send(width int, emit func(int, int)) {
	for column := range width {
		emit(column, f.columns[column])
	}
	f.columns = [4]int{}
}

type foldNumbers struct{ fold }

func (fn *foldNumbers) ProcessElement(number int, _ func(int, int)) {
	fn.columns[0]++
	fn.columns[1] += number
}

func (fn *foldNumbers) FinishBundle(emit func(int, int)) {
	fn.send(2, emit)
}

type foldSums struct{ fold }

func (fn *foldSums) ProcessElement(key string, sum int, _ func(int, int)) {
	fn.columns[0]++
	fn.columns[1] += sum
	fn.columns[2] += crc(key) * sum
}

func (fn *foldSums) FinishBundle(emit func(int, int)) {
	fn.send(3, emit)
}

type foldGroups struct{ fold }

func (fn *foldGroups) ProcessElement(key string, next func(*[]byte) bool, _ func(int, int)) {
	var value []byte
	count, size := 0, 0
	for next(&value) {
		count++
		size += len(value)
	}
	fn.columns[0]++
	fn.columns[1] += count
	fn.columns[2] += size
	fn.columns[3] += crc(key) * count
}

func (fn *foldGroups) FinishBundle(emit func(int, int)) {
	fn.send(4, emit)
}

func told(column, sum int) string {
	return fmt.Sprintf("%d %d", column, sum)
}

type save struct {
	Out string
}

func (fn *save) ProcessElement(_ int, next func(*string) bool) error {
	var columns [4]int
	var text string
	width := 0
	for next(&text) {
		var column, sum int
		if _, err := fmt.Sscanf(text, "%d %d", &column, &sum); err != nil {
			return err
		}
		columns[column] = sum
		width = max(width, column+1)
	}
	data, err := json.Marshal(columns[:width])
	if err != nil {
		return err
	}
	part := filepath.Join(fn.Out, fmt.Sprintf("part-%d", time.Now().UnixNano()))
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(fn.Out, "tally.json"))
}

func tally(scope beam.Scope, elements beam.PCollection, fn any) {
	added := stats.SumPerKey(scope, beam.ParDo(scope, fn, elements))
	all := beam.AddFixedKey(scope, beam.ParDo(scope, told, added))
	beam.ParDo0(scope, &save{Out: *out}, beam.GroupByKey(scope, all))
}

func main() {
	flag.Parse()
	beam.Init()
	pipeline, scope := beam.NewPipelineWithRoot()
	spread := beam.Reshuffle(scope, beam.ParDo(scope, &spans{N: *elements}, beam.Impulse(scope)))
	switch *job {
	case "read":
		tally(scope, beam.ParDo(scope, number, spread), &foldNumbers{})
	case "chain":
		numbers := beam.ParDo(scope, number, spread)
		for range maps {
			numbers = beam.ParDo(scope, addOne, numbers)
		}
		numbers = beam.Reshuffle(scope, numbers)
		for range maps {
			numbers = beam.ParDo(scope, addOne, numbers)
		}
		tally(scope, numbers, &foldNumbers{})
	case "group":
		all := beam.Reshuffle(scope, beam.ParDo(scope, &pairs{Keys: *keys}, spread))
		tally(scope, beam.GroupByKey(scope, all), &foldGroups{})
	case "state":
		all := beam.ParDo(scope, &keyed{Keys: *keys, Equal: true}, spread)
		tally(scope, beam.ParDo(scope, &running{Sum: state.MakeValueState[int]("sum")}, all), &foldSums{})
	case "timers":
		all := beam.ParDo(scope, &keyed{Keys: *keys}, spread)
		fn := &sums{Sum: state.MakeValueState[int]("sum"), End: timers.InEventTime("end")}
		tally(scope, beam.ParDo(scope, fn, all), &foldSums{})
	default:
		panic(*job)
	}
	fmt.Println("began", time.Now().UnixMilli())
	_, err := beam.Run(context.Background(), "universal", pipeline)
	check(err)
}
