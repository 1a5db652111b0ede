package minilm

import (
	"golang.org/x/sys/cpu"

	"github.com/treadle-go/treadle/store/internal/matmul"
)

// processor describes the processor of this program.
var processor = matmul.Processor{AVX2: cpu.X86.HasAVX2 && cpu.X86.HasFMA, AVX512: cpu.X86.HasAVX512F}
