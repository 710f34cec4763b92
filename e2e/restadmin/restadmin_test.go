package restadmin_test

import (
	"encoding/json"
	"testing"

	"github.com/geobridge/geobridge/e2e/restadmin"
)

// A layout as broker 5.0.1 answers it, shortened.
const answer = `{"epoch":3,"segments":{
"0":{"segmentId":0,"hashRange":{"start":0,"end":32767},"state":"SEALED","parentIds":[],"childIds":[2],"entryBucketSplits":[32768],"active":false},
"2":{"segmentId":2,"hashRange":{"start":0,"end":32767},"state":"ACTIVE","parentIds":[0],"childIds":[],"entryBucketSplits":[16384,32768,49152],"active":true}}}`

func TestLayout(t *testing.T) {
	var layout restadmin.Layout
	if err := json.Unmarshal([]byte(answer), &layout); err != nil {
		t.Fatal(err)
	}
	active := layout.Active()
	if layout.Epoch != 3 || len(active) != 1 || active[0].ID != 2 || active[0].Descriptor() != "0000-7fff-2" {
		t.Fatalf("got %+v", layout)
	}
	if got := restadmin.Name("public/default/t").SegmentTopic(active[0]); got != "segment://public/default/t/0000-7fff-2" {
		t.Errorf("segment topic %s", got)
	}
	for hash, want := range map[int]int{0: 0, 16383: 0, 16384: 1, 32767: 1, 32768: 2, 65535: 3} {
		if got := active[0].Bucket(hash); got != want {
			t.Errorf("bucket of %d is %d, want %d", hash, got, want)
		}
	}
}
