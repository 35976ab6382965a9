import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { crowd } from '../../support/gitlab/gitlab-world.ts'
import { access, data, headOf, openAccess, startAccess, trailer } from './access-side.ts'

/** Agents' requests to a failing GitLab, and agents that leave or hang. */

const failure = (message: RegExp | string) => ({ grpcCode: 14, message })
const timeouts = { connectMs: 1000, headMs: 100, bodySilenceMs: 1000 }

t.test('GitLab away, silent, broken off: the agent is told which hop it was; a status is an answer', async (t) => {
  const { gitlab, lines, dial } = await startAccess(t, { side: { client: { timeouts, passageSilenceMs: 100 } } })
  gitlab.module = (_, response) => response.writeHead(500).end('broken')
  const agent = await dial()
  t.match(await access(agent), { statusCode: 500, body: Buffer.from('broken'), error: undefined })
  gitlab.module = (_, response) => response.writeHead(302, { Location: 'http://127.0.0.1:1/' }).end()
  t.match(await access(agent), { statusCode: 302, error: undefined }, 'is not followed')
  const told = 'gRPC -> HTTP: GitLab did not answer for path /api/v4/internal/kubernetes/modules'
  gitlab.module = () => undefined
  t.match((await access(agent)).error, failure(`${told}: no answer in time`))
  gitlab.module = (_, response) => response.flushHeaders()
  const silent = await access(agent)
  t.match(silent, { statusCode: 200, kinds: ['header'], error: failure(`${told}: the answer stopped in the middle`) })
  gitlab.module = (_, response) => {
    response.writeHead(200, { 'Content-Length': 10 }).write('half', () => response.socket?.destroy())
  }
  const half = await access(agent)
  t.match(half.error, failure(`${told}: the connection was closed before the end of the answer`))
  t.strictSame([half.kinds, String(half.body)], [['header', 'data'], 'half'], 'no trailer')
  await gitlab.leave()
  t.match((await access(agent)).error, failure(`${told}: ECONNREFUSED`))
  await gitlab.come()
  gitlab.module = (_, response) => response.end('back')
  t.equal(String((await access(agent)).body), 'back')
  t.ok(lines.some(({ msg }) => String(msg).startsWith('GitLab cannot be asked')))
  t.ok(lines.some(({ msg }) => msg === 'GitLab answers again'))
  t.notMatch(JSON.stringify(lines), /glagent-prod|eyJ/)
})

t.test('an idle connection that GitLab closes costs a request without a body nothing', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  gitlab.module = (_, response) => response.end('x')
  const agent = await dial()
  for (let i = 0; i < 5; i++) {
    t.equal((await access(agent, { contentLength: 0 })).error, undefined)
    gitlab.cut()
  }
})

t.test('an agent that cancels ends what GitLab is asked, wherever it was', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  const agent = await dial()
  const begun = () => {
    const { promise, resolve } = Promise.withResolvers<[IncomingMessage, ServerResponse]>()
    gitlab.module = (request, response) => resolve([request, response])
    return promise
  }
  const steps = [
    { parts: [headOf({ method: 'PUT', contentLength: -1 }), data('x')], answer: false },
    { parts: [headOf(), trailer], answer: false },
    { parts: [headOf(), trailer], answer: true },
  ]
  for (const { parts, answer } of steps) {
    const asked = begun()
    const { stream, send, next } = openAccess(agent)
    await send(...parts)
    const [, response] = await asked
    const gone = once(response, 'close')
    if (answer) {
      response.write('x')
      await next()
    }
    stream.cancel()
    await gone
    t.equal(response.writableFinished, false)
  }
})

t.test('who does not read stops who sends: an agent GitLab, and GitLab an agent', async (t) => {
  const { gitlab, dial } = await startAccess(t)
  const agent = await dial()
  const chunk = Buffer.alloc(64 << 10)
  let written = 0
  const endless = function* () {
    for (;;) {
      written += chunk.length
      yield chunk
    }
  }
  gitlab.module = (_, response) => Readable.from(endless()).pipe(response)
  const down = openAccess(agent)
  await down.send(headOf(), trailer)
  await stands(() => written)
  t.ok(written < 16 << 20, `GitLab sent ${written >> 10} KiB`)
  down.stream.cancel()

  let request: IncomingMessage | undefined
  gitlab.module = (incoming) => {
    request = incoming.pause()
  }
  const up = openAccess(agent)
  let sent = 0
  const sending = (async () => {
    await up.send(headOf({ method: 'PUT', contentLength: -1 }))
    for (;;) {
      await up.send(data(chunk))
      sent += chunk.length
      if (sent > 24 << 20) return
    }
  })()
  await stands(() => sent)
  t.ok(request && sent < 16 << 20, `the agent sent ${sent >> 10} KiB`)
  request?.resume()
  await sending
  t.ok(sent > 24 << 20, 'and goes on')
  up.stream.cancel()
})

/** Resolves when the number is above 0 and no longer changes. */
async function stands(value: () => number): Promise<void> {
  let last = -1
  let same = 0
  await eventually(() => {
    const now = value()
    same = now > 0 && now === last ? same + 1 : 0
    last = now
    if (same < 5) throw new Error('it still moves')
  })
}

t.test('requests that hang keep neither other agents nor their tokens waiting', async (t) => {
  const { gitlab, directory, dial } = await startAccess(t, { gitlab: { world: crowd(6) } })
  const held = new Map<string, ServerResponse[]>()
  gitlab.module = (request, response) => {
    const token = String(request.headers['gitlab-agent-api-request'])
    held.set(token, [...(held.get(token) ?? []), response])
  }
  const count = () => [...held.values()].reduce((sum, list) => sum + list.length, 0)
  const ask = async (i: number, many: number) => {
    const agent = await dial(`agent-${i}`)
    return Array.from({ length: many }, () => {
      const call = openAccess(agent, `agent-${i}`)
      void call.send(headOf(), trailer)
      return call
    })
  }
  const calls = await ask(1, 7)
  await eventually(() => count() === 5 || Promise.reject(new Error(`${count()} are asked`)))
  await ask(2, 5)
  await eventually(() => count() === 10 || Promise.reject(new Error(`${count()} are asked`)))
  t.equal(held.get('agent-1')?.length, 5, 'of one agent at once')
  await ask(3, 5)
  await ask(4, 1)
  await eventually(() => count() === 15 || Promise.reject(new Error(`${count()} are asked`)))
  t.match(
    await directory.agentByToken('agent-5', new AbortController().signal),
    { id: 5n },
    'tokens have their own turns',
  )
  t.equal(count(), 15, 'of all agents at once')
  held.get('agent-1')?.[0]?.end('x')
  // GitLab may have received them in any order
  const { statusCode } = await Promise.race(calls.map((call) => call.answer()))
  t.equal(statusCode, 200)
  await eventually(() => count() === 16 || Promise.reject(new Error(`${count()} are asked`)))
})
