import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { SharedBytes } from '../../../../../../src/agentk/modules/gitops/files/kept-files.ts'
import {
  maxPreviews,
  type PreviewMethodComponents,
  previewMethod,
} from '../../../../../../src/agentk/modules/gitops/preview/preview-method.ts'
import type { PreviewedSource } from '../../../../../../src/agentk/modules/gitops/preview/previewed-source.ts'
import { callerMessage } from '../../../../../../src/kas/agent-caller.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { abortable } from '../../../../../../src/lib/signals.ts'
import { PreviewRequestSchema, PreviewResponseSchema } from '../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

type Part = NonNullable<MessageInitShape<typeof PreviewRequestSchema>['what']>

const caller = callerMessage({ key: 'agent' }, undefined)
const begin: Part = { case: 'begin', value: { caller, source: '42-7', auditId: 'one', values: true } }
const file = (path: string, data = ''): Part => ({ case: 'file', value: { path, data: Buffer.from(data) } })
const end = (files: number): Part => ({ case: 'end', value: { files } })

async function* messagesOf(parts: readonly Part[]) {
  for (const what of parts) yield toBinary(PreviewRequestSchema, create(PreviewRequestSchema, { what }))
}

function start({
  sourceOf,
  maxBytes = 1024 * 1024,
}: Pick<PreviewMethodComponents, 'sourceOf'> & { maxBytes?: number }) {
  const term = new AbortController()
  const room = new SharedBytes(maxBytes, () => maxPreviews)
  const rights = { may: async () => [], rules: async () => ({}) }
  const [, serve] = previewMethod({ sourceOf, rights, room, clock: new ManualClock(), signal: term.signal })
  const ask = async (parts: readonly Part[], signal = new AbortController().signal) => {
    const call = { messages: messagesOf(parts), signal } as unknown as Parameters<typeof serve>[0]
    const reply = await serve(call)
    const whats = []
    for await (const bytes of reply.messages as AsyncIterable<Uint8Array>)
      whats.push(fromBinary(PreviewResponseSchema, bytes).what)
    const { error } = await reply.done
    return { whats, error }
  }
  return { term, room, ask }
}

/** Source whose build goes on until its signal aborts. */
function endlessBuild() {
  const begun = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<unknown>()
  const build: PreviewedSource['build'] = async (_, signal) => {
    begun.resolve()
    try {
      return await abortable(new Promise<never>(() => undefined), signal)
    } catch (error) {
      ended.resolve(error)
      throw error
    }
  }
  const claims = { stands: () => 'no' }
  const source = { build, claims, options: { id: '42-7', adopt: [] } } as unknown as PreviewedSource
  return { source, begun: begun.promise, ended: ended.promise }
}

t.test('a preview ends with the term: its renderer, its place and its memory', async (t) => {
  const { source, begun, ended } = endlessBuild()
  const { term, room, ask } = start({ sourceOf: () => source })
  const asked = ask([begin, file('a.yaml', 'a'), end(1)])
  await begun
  const reason = new KasError({ code: 'CANCELLED', detail: 'the term has ended' })
  term.abort(reason)
  t.equal(await ended, reason)
  const { whats, error } = await asked
  t.strictSame([whats, error?.code], [[], 'CANCELLED'])
  t.ok(room.set({}, room.maxBytes), 'all bytes are free again')
  t.equal((await ask([begin, end(0)])).error?.code, 'CANCELLED', 'no other one begins')
})

t.test('a caller who leaves ends its preview', async (t) => {
  const { source, begun, ended } = endlessBuild()
  const { room, ask } = start({ sourceOf: () => source })
  const leaves = new AbortController()
  const asked = ask([begin, file('a.yaml', 'a'), end(1)], leaves.signal)
  await begun
  const reason = new KasError({ code: 'CANCELLED' })
  leaves.abort(reason)
  t.equal(await ended, reason)
  t.equal((await asked).error?.code, 'CANCELLED')
  t.ok(room.set({}, room.maxBytes))
})

t.test('paths of files take room too', async (t) => {
  const { ask } = start({ sourceOf: () => 'no source', maxBytes: 8000 })
  const path = (i: number) => `${i}/${'a'.repeat(900)}`
  const few = [0, 1, 2].map((i) => file(path(i)))
  t.match((await ask([begin, ...few, end(3)])).whats, [{ case: 'end', value: { problem: 'no source' } }])
  const many = Array.from({ length: 10 }, (_, i) => file(path(i)))
  t.equal((await ask([begin, ...many, end(10)])).error?.code, 'TOO_MANY_STREAMS')
})

t.test('files that are not as announced refuse the preview', async (t) => {
  const { ask } = start({ sourceOf: () => 'no source' })
  const bad: Readonly<Record<string, readonly Part[]>> = {
    'no begin': [file('a'), end(1)],
    'a second begin': [begin, begin, end(0)],
    'too few': [begin, file('a'), end(2)],
    'too many': [begin, file('a'), file('b'), end(1)],
    'one file again, after another': [begin, file('a'), file('b'), file('a'), end(3)],
    'a file without a path': [begin, file(''), end(1)],
    'no end': [begin, file('a')],
  }
  for (const [name, parts] of Object.entries(bad)) t.equal((await ask(parts)).error?.code, 'INVALID_MESSAGE', name)
})
