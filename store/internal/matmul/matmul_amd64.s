//go:build amd64 && !purego

#include "textflag.h"

// func block8(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)
//
// Z0 to Z7 hold the sums of eight rows, sixteen columns each. Each iteration multiplies the next row of the panel (Z8)
// by the next element of each row of x.
TEXT ·block8(SB), NOSPLIT, $0-56
	MOVQ y+0(FP), DI
	MOVQ ys+8(FP), SI
	MOVQ x+16(FP), R8
	MOVQ xs+24(FP), R9
	MOVQ w+32(FP), DX
	MOVQ bias+40(FP), BX
	MOVQ k+48(FP), CX
	SHLQ $2, SI           // from elements to bytes
	SHLQ $2, R9
	LEAQ (R8)(R9*4), R10  // the fifth row of x
	LEAQ (R9)(R9*2), R11  // three strides of x

	VMOVUPS (BX), Z0
	VMOVAPS Z0, Z1
	VMOVAPS Z0, Z2
	VMOVAPS Z0, Z3
	VMOVAPS Z0, Z4
	VMOVAPS Z0, Z5
	VMOVAPS Z0, Z6
	VMOVAPS Z0, Z7

turn8:
	VMOVUPS          (DX), Z8
	VFMADD231PS.BCST (R8), Z8, Z0
	VFMADD231PS.BCST (R8)(R9*1), Z8, Z1
	VFMADD231PS.BCST (R8)(R9*2), Z8, Z2
	VFMADD231PS.BCST (R8)(R11*1), Z8, Z3
	VFMADD231PS.BCST (R10), Z8, Z4
	VFMADD231PS.BCST (R10)(R9*1), Z8, Z5
	VFMADD231PS.BCST (R10)(R9*2), Z8, Z6
	VFMADD231PS.BCST (R10)(R11*1), Z8, Z7
	ADDQ             $64, DX
	ADDQ             $4, R8
	ADDQ             $4, R10
	DECQ             CX
	JNZ              turn8

	LEAQ    (DI)(SI*4), R12  // the fifth row of y
	LEAQ    (SI)(SI*2), R13  // three strides of y
	VMOVUPS Z0, (DI)
	VMOVUPS Z1, (DI)(SI*1)
	VMOVUPS Z2, (DI)(SI*2)
	VMOVUPS Z3, (DI)(R13*1)
	VMOVUPS Z4, (R12)
	VMOVUPS Z5, (R12)(SI*1)
	VMOVUPS Z6, (R12)(SI*2)
	VMOVUPS Z7, (R12)(R13*1)
	VZEROUPPER
	RET

// func block4(y *float32, ys int, x *float32, xs int, w, bias *float32, k int)
//
// Y0 to Y7 hold the sums of four rows, two registers of eight columns each. Each iteration multiplies the next row of
// the panel (Y8, Y9) by the next element of each row of x.
TEXT ·block4(SB), NOSPLIT, $0-56
	MOVQ y+0(FP), DI
	MOVQ ys+8(FP), SI
	MOVQ x+16(FP), R8
	MOVQ xs+24(FP), R9
	MOVQ w+32(FP), DX
	MOVQ bias+40(FP), BX
	MOVQ k+48(FP), CX
	SHLQ $2, SI           // from elements to bytes
	SHLQ $2, R9
	LEAQ (R8)(R9*2), R10  // the third row of x
	LEAQ (DI)(SI*2), R11  // the third row of y

	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	VMOVAPS Y0, Y2
	VMOVAPS Y1, Y3
	VMOVAPS Y0, Y4
	VMOVAPS Y1, Y5
	VMOVAPS Y0, Y6
	VMOVAPS Y1, Y7

turn4:
	VMOVUPS      (DX), Y8
	VMOVUPS      32(DX), Y9
	VBROADCASTSS (R8), Y10
	VBROADCASTSS (R8)(R9*1), Y11
	VBROADCASTSS (R10), Y12
	VBROADCASTSS (R10)(R9*1), Y13
	VFMADD231PS  Y8, Y10, Y0
	VFMADD231PS  Y9, Y10, Y1
	VFMADD231PS  Y8, Y11, Y2
	VFMADD231PS  Y9, Y11, Y3
	VFMADD231PS  Y8, Y12, Y4
	VFMADD231PS  Y9, Y12, Y5
	VFMADD231PS  Y8, Y13, Y6
	VFMADD231PS  Y9, Y13, Y7
	ADDQ         $64, DX
	ADDQ         $4, R8
	ADDQ         $4, R10
	DECQ         CX
	JNZ          turn4

	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, (DI)(SI*1)
	VMOVUPS Y3, 32(DI)(SI*1)
	VMOVUPS Y4, (R11)
	VMOVUPS Y5, 32(R11)
	VMOVUPS Y6, (R11)(SI*1)
	VMOVUPS Y7, 32(R11)(SI*1)
	VZEROUPPER
	RET
