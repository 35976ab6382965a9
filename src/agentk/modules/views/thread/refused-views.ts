import { create, toBinary } from '@bufbuild/protobuf'
import { type Call, noMetadata, type Outcome } from '../../../../call/call.ts'
import { KasError } from '../../../../lib/errors.ts'
import { abortable, linkedController } from '../../../../lib/signals.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import { FollowRequestSchema, FollowResponseSchema } from '../../../../proto/gen/views_pb.ts'
import type { ServeReply } from '../../../tunnels/serve.ts'

/**
 * Serves `Views/Follow` while views are off: each gets the reason, and nobody waits for another pod.
 *
 * @param why - what a view gets
 * @param over - aborts when that has changed: kas opens the stream anew, which it keeps for the next viewers
 */
export function refuseViews(
  { messages, signal }: Pick<Call, 'messages' | 'signal'>,
  { why, over }: { why: string; over: AbortSignal },
): ServeReply {
  const fault = { code: 'VIEWS_NOT_SERVED', text: why }
  const done = Promise.withResolvers<Outcome>()
  return { metadata: Promise.resolve(noMetadata), messages: answers(), done: done.promise }

  async function* answers(): AsyncGenerator<Uint8Array> {
    const ended = linkedController(signal, over)
    const requests = messages[Symbol.asyncIterator]()
    try {
      for (;;) {
        const { value, done: isOver } = await abortable(requests.next(), ended.signal)
        if (isOver) break
        const { view, step } = decodeMessage(FollowRequestSchema, value)
        if (step.case === 'open') yield toBinary(FollowResponseSchema, create(FollowResponseSchema, { view, fault }))
      }
    } catch (error) {
      if (!over.aborted) done.resolve({ error: KasError.from(error), trailers: noMetadata })
    } finally {
      done.resolve({ trailers: noMetadata })
      ended.dispose()
    }
  }
}
