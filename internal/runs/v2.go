package runs

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/ledger"
)

// v2recorder records the events of protocol v2.
type v2recorder struct {
	run   *ledger.Run
	graph string
	log   *log
}

func newV2Recorder(run *ledger.Run, graph string, l *log) *v2recorder {
	return &v2recorder{run, graph, l}
}

func (*v2recorder) event(treadle.Event) {}

func (*v2recorder) end(*End) {}
