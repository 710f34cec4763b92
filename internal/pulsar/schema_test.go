package pulsar

import (
	"errors"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func TestSchemas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		a, b := r.broker("a:6650"), r.broker("b:1")
		a.on(pulsarpb.BaseCommand_LOOKUP, func(c *fakeConn, f *frame.Frame) {
			c.lookedUp(f.Command, pulsarpb.CommandLookupTopicResponse_Connect, "b:1", true)
		})
		b.on(pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA, func(c *fakeConn, f *frame.Frame) {
			reply := command(pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA_RESPONSE)
			reply.GetOrCreateSchemaResponse = &pulsarpb.CommandGetOrCreateSchemaResponse{RequestId: f.Command.GetGetOrCreateSchema().RequestId, SchemaVersion: []byte{7}}
			if f.Command.GetGetOrCreateSchema().GetSchema().GetName() == "bad" {
				reply.GetOrCreateSchemaResponse.ErrorCode = pulsarpb.ServerError_IncompatibleSchema.Enum()
			}
			c.send(reply)
		})
		var registered *pulsarpb.Schema
		a.on(pulsarpb.BaseCommand_GET_SCHEMA, func(c *fakeConn, f *frame.Frame) {
			reply := command(pulsarpb.BaseCommand_GET_SCHEMA_RESPONSE)
			m := &pulsarpb.CommandGetSchemaResponse{RequestId: f.Command.GetGetSchema().RequestId}
			reply.GetSchemaResponse = m
			if string(f.Command.GetGetSchema().GetSchemaVersion()) == "\x07" {
				m.Schema, m.SchemaVersion = registered, []byte{7}
			} else {
				m.ErrorCode = pulsarpb.ServerError_TopicNotFound.Enum()
			}
			c.send(reply)
		})
		want := Schema{Name: "s", Type: pulsarpb.Schema_Avro, Data: []byte("{}"), Properties: map[string]string{"b": "2", "a": "1"}}
		version, err := r.client.GetOrCreateSchema(t.Context(), testTopic, want)
		if err != nil || string(version) != "\x07" {
			t.Fatalf("version %v, %v", version, err)
		}
		registered = b.received(pulsarpb.BaseCommand_GET_OR_CREATE_SCHEMA)[0].Command.GetGetOrCreateSchema().GetSchema()
		if registered.GetProperties()[0].GetKey() != "a" {
			t.Errorf("properties in the order %v", registered.GetProperties())
		}
		got, version, err := r.client.GetSchema(t.Context(), testScalable, version)
		if err != nil || !proto.Equal(got.wire(), want.wire()) || string(version) != "\x07" {
			t.Errorf("got %+v, %v, %v", got, version, err)
		}
		if _, _, err := r.client.GetSchema(t.Context(), testScalable, nil); !errors.Is(err, ErrSchemaNotFound) || errors.Is(err, ErrTopicNotFound) || ClassOf(err) != ClassNotFound {
			t.Errorf("no schema: %v", err)
		}
		if _, err := r.client.GetOrCreateSchema(t.Context(), testTopic, Schema{Name: "bad"}); !errors.Is(err, ErrIncompatibleSchema) {
			t.Errorf("incompatible: %v", err)
		}
		if _, err := r.client.GetOrCreateSchema(t.Context(), testScalable, want); !errors.Is(err, ErrInvalidName) {
			t.Errorf("on the scalable topic itself: %v", err)
		}
	})
}
