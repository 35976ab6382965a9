import t from 'tap'
import { encodeCall, endFrame, frameKind } from '../../../../src/proto/grpc/lane-frames.ts'
import { replicaLimits } from '../../../../src/proto/grpc/limits.ts'
import { type CallHandler, ServerLanes } from '../../../../src/proto/grpc/server-lane.ts'
import type { ServerStream } from '../../../../src/proto/grpc/server-stream.ts'
import { UnreadBytes } from '../../../../src/proto/grpc/unread-bytes.ts'
import { SimulatedInbox } from '../../../simulator/simulated-inbox.ts'

/** A lane whose connection sends when the test says so. */
function laneOf(handler: CallHandler) {
  const charged: { in?: UnreadBytes | undefined; out?: UnreadBytes | undefined } = {}
  const replied = Promise.withResolvers<void>()
  const inbox = new SimulatedInbox(() => undefined)
  let leave = () => {}
  const chargeInbox = (unread: UnreadBytes | undefined) => {
    charged.in = unread
  }
  const messages = Object.assign(inbox, { chargeTo: chargeInbox })
  const stream = {
    session: { limits: replicaLimits },
    messages,
    signal: new AbortController().signal,
    limit: () => undefined,
    sendMetadata: () => undefined,
    addTrailers: () => undefined,
    receives: () => undefined,
    chargeTo: (unread: UnreadBytes | undefined) => {
      chargeInbox(unread)
      charged.out = unread
    },
    send: (frame: Uint8Array) => {
      if (frame[0] === frameKind.trailers) replied.resolve()
    },
    onSent: (listener: () => void) => {
      leave = listener
    },
  }
  const ended = new ServerLanes().serve(stream as unknown as ServerStream, handler)
  return { inbox, charged, replied: replied.promise, leave: () => leave(), ended }
}

t.test('what comes behind the reply of a call is not charged to it; what has not left is', async (t) => {
  const unread = new UnreadBytes(1000)
  const { inbox, charged, replied, leave, ended } = laneOf(async (call) => {
    call.chargeTo(unread)
  })
  inbox.add(encodeCall('/a.B/C', {}))
  await replied
  t.same([charged.in, charged.out], [undefined, unread])
  leave()
  t.equal(charged.out, undefined)
  inbox.add(endFrame)
  inbox.end()
  await ended
})
