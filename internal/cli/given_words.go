package cli

import "github.com/jajeong/jajeong/internal/connect"

// koreanSlips are connect's slips in Korean, behind the name of what was given.
var koreanSlips = map[connect.Slip]string{
	connect.GivenEmpty:    ": 값이 비어 있습니다. 값을 주세요",
	connect.GivenZero:     ": 0은 없다는 뜻입니다. 1부터 주세요",
	connect.GivenTwice:    ": 두 번 이상 주었습니다. 한 번만 주세요",
	connect.GivenNotPlain: ": 줄바꿈 같은 제어 문자가 있거나 UTF-8이 아닙니다. 한 줄의 평범한 글로 주세요",
}
