import t from 'tap'
import type { ApiClient } from '../../../../src/agentk/cluster/api-client.ts'
import type { ApiRequest, ApiResponseHandler } from '../../../../src/agentk/cluster/api-request.ts'
import { followWatch, maxEventBytes, type WatchEvent } from '../../../../src/agentk/cluster/watch-request.ts'

/** A watch. The test sends its answer. */
function watch() {
  const events: WatchEvent[] = []
  const sent = Promise.withResolvers<ApiResponseHandler>()
  let aborted: unknown
  const send = (_: ApiRequest, handler: ApiResponseHandler) => {
    sent.resolve(handler)
    return { abort: (reason: unknown) => (aborted = reason) }
  }
  const ended = followWatch({ send } as unknown as Pick<ApiClient, 'send'>, {
    path: '/watch',
    signal: new AbortController().signal,
    onEvent: (event) => events.push(event) > 0,
  })
  ended.catch(() => undefined)
  const begin = async () => {
    const handler = await sent.promise
    handler.onHead(200, 'OK', [])
    return handler
  }
  return { begin, ended, events, aborted: () => aborted }
}

const line = (name: string) => `${JSON.stringify({ type: 'ADDED', object: { name } })}\n`

t.test('events, however they are cut', async (t) => {
  const { begin, ended, events } = watch()
  const handler = await begin()
  const text = Buffer.from(`${line('a')}\n${line('é')}${line('c')}`)
  for (const byte of text.subarray(0, 50)) handler.onData(Buffer.of(byte))
  handler.onData(text.subarray(50))
  handler.onEnd()
  t.equal(await ended, 200)
  t.same(
    events.map(({ object }) => object),
    [{ name: 'a' }, { name: 'é' }, { name: 'c' }],
  )
})

t.test('an event that is too large, or comes in too small pieces, ends the watch', async (t) => {
  for (const [size, pieces] of [
    [64 * 1024, maxEventBytes / (64 * 1024) + 1],
    [1, maxEventBytes / 128],
  ] as const) {
    const { begin, ended, aborted } = watch()
    const handler = await begin()
    let sent = 0
    for (; aborted() === undefined && sent < pieces; sent++) handler.onData(Buffer.alloc(size, 'x'))
    t.match(aborted(), { code: 'MESSAGE_TOO_LARGE' })
    await t.rejects(ended, { code: 'MESSAGE_TOO_LARGE' })
  }
})

t.test('pieces of many events count for their own event alone', async (t) => {
  const { begin, ended, events, aborted } = watch()
  const handler = await begin()
  const text = Buffer.from(line('a'))
  const count = Math.ceil(maxEventBytes / 128 / 2) + 1 // two pieces each
  for (let i = 0; i < count; i++) {
    handler.onData(text.subarray(0, 5))
    handler.onData(text.subarray(5))
  }
  handler.onEnd()
  await ended
  t.equal(aborted(), undefined)
  t.equal(events.length, count)
})
