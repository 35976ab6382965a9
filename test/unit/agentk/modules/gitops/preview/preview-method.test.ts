import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { SharedBytes } from '../../../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { previewMethod } from '../../../../../../src/agentk/modules/gitops/preview/preview-method.ts'
import type { AgentId, Call } from '../../../../../../src/call/call.ts'
import { kasCaller } from '../../../../../../src/call/caller.ts'
import { PreviewRequestSchema, PreviewResponseSchema } from '../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Bounds of previews at an agent: their number, their time, their memory. */

type Part = NonNullable<MessageInitShape<typeof PreviewRequestSchema>['what']>

const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
const beginOf = (key: string, auditId = 'a-1'): Part => ({
  case: 'begin',
  value: { caller: { as: { case: 'agent', value: {} }, key }, source: '42-7', auditId },
})
const file: Part = { case: 'file', value: { path: 'a', data: Buffer.from('content') } }
const end: Part = { case: 'end', value: { files: 1 } }

function start(maxBytes = 1000) {
  const clock = new ManualClock()
  const room = new SharedBytes(maxBytes, () => 2)
  const rights = { may: async () => [], rules: async () => ({}) }
  const [method, serve] = previewMethod({
    sourceOf: () => 'not followed',
    rights,
    room,
    clock,
    signal: new AbortController().signal,
  })
  /** Calls the method. @param rest - waits before the parts after the begin */
  const ask = (parts: readonly Part[], rest: Promise<unknown> = Promise.resolve()) => {
    async function* messages(): AsyncGenerator<Uint8Array> {
      for (const [i, what] of parts.entries()) {
        if (i === 1) await rest
        yield toBinary(PreviewRequestSchema, create(PreviewRequestSchema, { what }))
      }
    }
    const call = {
      agentId: 42n as AgentId,
      method,
      metadata: {},
      messages: messages() as Call['messages'],
      safety: 'safe',
      caller: kasCaller,
      signal: new AbortController().signal,
    } as const
    const answer = (async () => {
      const reply = await serve(call)
      const all = (await Array.fromAsync(reply.messages)) as Uint8Array[]
      const { error } = await reply.done
      if (error) throw error
      return all.map((bytes) => fromBinary(PreviewResponseSchema, bytes).what)
    })()
    answer.catch(() => undefined) // each test waits for its end
    return answer
  }
  return { clock, ask }
}

t.test('a source that is not followed is a problem', async (t) => {
  const { ask, clock } = start()
  t.match(await ask([beginOf('ada'), file, end]), [
    { case: 'end', value: { problem: 'not followed', atMs: BigInt(clock.now()) } },
  ])
  t.equal(clock.pending, 0, 'no timer is left')
})

t.test('an audit id is checked, and a caller is named', async (t) => {
  const { ask } = start()
  for (const id of ['', 'a b', 'a\r\nX: y', 'x'.repeat(65)])
    await t.rejects(ask([beginOf('ada', id), file, end]), { code: 'INVALID_MESSAGE' }, JSON.stringify(id))
  const nobody: Part = { case: 'begin', value: { source: '42-7', auditId: 'a' } }
  await t.rejects(ask([nobody, file, end]), { code: 'INVALID_MESSAGE' })
})

t.test('two previews at once; one more makes room only for a caller with less', async (t) => {
  const { ask } = start()
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const first = ask([beginOf('ada'), file, end], held)
  const second = ask([beginOf('ada'), file, end], held)
  await settled()
  await t.rejects(ask([beginOf('ada'), file, end]), { code: 'TOO_MANY_STREAMS', spec: { name: 'previews' } })
  t.match(await ask([beginOf('bob'), file, end]), [{ case: 'end' }], 'another caller takes a place from her')
  await t.rejects(second, { code: 'TOO_MANY_STREAMS' })
  release()
  t.match(await first, [{ case: 'end' }])
})

t.test('a preview has a minute, and files that come too slowly less', async (t) => {
  const { ask, clock } = start()
  const { promise: never } = Promise.withResolvers<void>()
  const slow = ask([beginOf('ada'), file, end], never)
  await settled()
  t.strictSame(clock.waits, [10_000, 60_000])
  clock.advance(10_000)
  await t.rejects(slow, { code: 'DEADLINE_EXCEEDED' })
})

t.test('the bytes of all previews have a limit', async (t) => {
  const { ask } = start(5)
  await t.rejects(ask([beginOf('ada'), file, end]), { code: 'TOO_MANY_STREAMS', spec: { name: 'preview_bytes' } })
})
