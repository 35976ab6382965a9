import t from 'tap'
import { type AccessLine, accessLineText } from '../../../../src/kas/access-log/access-line.ts'
import { maxOwnLines, maxRecentLines, RecentLines } from '../../../../src/kas/access-log/recent-lines.ts'
import type { OwnRequest } from '../../../../src/kas/own-endpoint.ts'
import { ownLinesEndpoint } from '../../../../src/kas/own-lines-endpoint.ts'
import { ReplicaLog } from '../../../../src/kas/sessions/replica-log.ts'
import type { UnaryMethods } from '../../../../src/proto/unary.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'
import { FakePeers } from '../peers/fake-peers.ts'

/** Tests that `kas log` asks every replica. */

const startMs = Date.parse('2026-11-26T18:00:00.000Z')

interface Said {
  readonly second: number
  readonly entry: string
  readonly user?: string
  readonly id?: string
  readonly verb?: string
  readonly agent?: string
  readonly address?: string
  readonly isJob?: boolean
}

function lineOf({ second, entry, user = 'ada', id = '5', verb = 'delete', agent = '42', ...more }: Said): AccessLine {
  const job = more.isJob ? { kind: 'ci_job' as const, project: '1', job: '9', pipeline: '9' } : undefined
  return {
    time: new Date(startMs + second * 1000).toISOString(),
    event: 'end',
    class: 'write',
    caller: { kind: 'personal_access_token', id, name: user, ...job },
    agent_id: agent,
    verb,
    resource: 'pods',
    status: 200,
    outcome: 'answered',
    ...(more.address === undefined ? {} : { address: more.address }),
    entry,
  }
}

function replica(name: string, peers = new FakePeers()) {
  const clock = new ManualClock(startMs)
  const recent = new RecentLines()
  const log = new ReplicaLog({ recent, peers, clock })
  const add = (said: Omit<Said, 'entry'>) => {
    const line = lineOf({ ...said, entry: name })
    recent.add(line, accessLineText(line))
  }
  return { name, log, add, clock }
}

const timesOf = (lines: readonly string[]) =>
  lines.map((text) => {
    const { time, entry } = JSON.parse(text) as AccessLine
    return `${(Date.parse(time) - startMs) / 1000} ${entry}`
  })

t.test('lines of all replicas, the oldest first, and who did not answer', async (t) => {
  const others = [replica('kas-1'), replica('kas-2')]
  const methods = new Map<string, UnaryMethods>(others.map(({ name, log }) => [name, log.replicaMethods]))
  methods.set('kas-3', new Map()) // a replica of an older version
  const own = replica('kas-0', new FakePeers(methods))
  own.add({ second: 2 })
  own.add({ second: 5, user: 'bob', id: '6' })
  others[0]?.add({ second: 1 })
  others[0]?.add({ second: 4, verb: 'patch' })
  others[1]?.add({ second: 3, agent: '43' })
  const all = await own.log.read({})
  t.strictSame(timesOf(all.lines), ['1 kas-1', '2 kas-0', '3 kas-2', '4 kas-1', '5 kas-0'])
  t.strictSame(all.unreached, ['kas-3'])
  t.strictSame(all.incomplete, [])
  const of = async (filter: Parameters<ReplicaLog['read']>[0]) => timesOf((await own.log.read(filter)).lines)
  t.strictSame(await of({ user: 'bob' }), ['5 kas-0'])
  t.strictSame(await of({ agent: '43' }), ['3 kas-2'])
  t.strictSame(await of({ verb: 'patch' }), ['4 kas-1'])
  t.strictSame(await of({ since: new Date(startMs + 4000).toISOString() }), ['4 kas-1', '5 kas-0'])
  t.strictSame(await of({ userId: '6' }), ['5 kas-0'])
})

t.test('all that a replica keeps comes, in pages, and a page is small', async (t) => {
  const other = replica('kas-1')
  for (let i = 0; i < maxRecentLines + 50; i++) other.add({ second: i })
  let pages = 0
  const counted: UnaryMethods = new Map(
    [...other.log.replicaMethods].map(([path, serve]) => [
      path,
      async (request) => {
        pages++
        const answer = await serve(request)
        t.ok(answer.length < 1.1 * 1024 * 1024, `${answer.length} bytes`)
        return answer
      },
    ]),
  )
  const own = replica('kas-0', new FakePeers(new Map([['kas-1', counted]])))
  const { lines, incomplete } = await own.log.read({})
  t.equal(lines.length, maxRecentLines)
  t.equal(new Set(lines).size, maxRecentLines, 'each once')
  t.strictSame(timesOf(lines.slice(0, 1)), ['50 kas-1'])
  t.strictSame(incomplete, [])
  t.ok(pages > 1)
  const last = await own.log.read({}, { last: 10 })
  t.strictSame(timesOf(last.lines.slice(0, 1)), [`${maxRecentLines + 40} kas-1`])
  t.equal(last.lines.length, 10)
})

async function passed(clock: ManualClock, ms: number): Promise<void> {
  await clock.pass(ms)
  await settle(20)
}

t.test('--follow goes on with lines of all, each once', async (t) => {
  const other = replica('kas-1')
  const own = replica('kas-0', new FakePeers(new Map([['kas-1', other.log.replicaMethods]])))
  own.add({ second: 0 })
  other.add({ second: 1 })
  const { lines, follow } = await own.log.open({})
  t.strictSame(timesOf(lines), ['0 kas-0', '1 kas-1'])
  const came: string[] = []
  const stop = follow((line) => came.push(line))
  own.add({ second: 2 })
  other.add({ second: 3 })
  t.strictSame(timesOf(came), ['2 kas-0'], 'its own at once')
  await passed(own.clock, 1000)
  t.strictSame(timesOf(came), ['2 kas-0', '3 kas-1'])
  other.add({ second: 4 })
  await passed(own.clock, 1000)
  await passed(own.clock, 1000)
  t.strictSame(timesOf(came), ['2 kas-0', '3 kas-1', '4 kas-1'])
  stop()
  own.add({ second: 5 })
  await passed(own.clock, 3000)
  t.equal(came.length, 3)
  t.equal(own.clock.pending, 0)
})

const requestOf = (who: OwnRequest['who'], query: Record<string, string> = {}) =>
  ({ who, query: new Map(Object.entries(query).map(([name, value]) => [name, [value]])) }) as unknown as OwnRequest

t.test('a user gets own lines alone, without addresses of others; a CI job none', async (t) => {
  const other = replica('kas-1')
  const own = replica('kas-0', new FakePeers(new Map([['kas-1', other.log.replicaMethods]])))
  own.add({ second: 0, address: '10.0.0.7' })
  own.add({ second: 1, user: 'bob', id: '6', address: '10.0.0.8' })
  own.add({ second: 2, user: '5', id: '7', address: '10.0.0.9' })
  other.add({ second: 3, address: '192.0.2.1' })
  other.add({ second: 4, isJob: true, address: '192.0.2.2', verb: 'patch' })
  const endpoint = ownLinesEndpoint(own.log)
  const ada = { userId: 5n, isJob: false, projectIds: [], address: '10.0.0.7' }
  const ask = async (query: Record<string, string> = {}) => {
    const { status, body } = await endpoint.serve(requestOf(ada, query))
    t.equal(status, 200)
    return JSON.parse(String(body)) as { lines: AccessLine[]; cut: boolean; unreached: string[] }
  }
  const { lines, cut, unreached } = await ask()
  t.strictSame(
    lines.map(({ entry, address, caller }) => [entry, address, caller?.id]),
    [
      ['kas-0', '10.0.0.7', '5'],
      ['kas-1', undefined, '5'],
      ['kas-1', undefined, '5'],
    ],
  )
  t.equal(cut, false)
  t.strictSame(unreached, [])
  t.equal((await ask({ verb: 'patch' })).lines.length, 1)
  t.equal((await ask({ agent: '43' })).lines.length, 0)
  t.equal((await ask({ since: new Date(startMs + 3000).toISOString() })).lines.length, 2)
  for (const who of [{ ...ada, isJob: true }, undefined])
    await t.rejects(endpoint.serve(requestOf(who)), { code: 'IDENTITY_REFUSED', message: /not to CI jobs/ })
  for (const query of [{ user: 'bob' }, { agent: 'x' }, { verb: '' }, { since: 'soon' }])
    await t.rejects(endpoint.serve(requestOf(ada, query as unknown as Record<string, string>)), { code: 'BAD_REQUEST' })
})

t.test('one question of a user at a time, 1,000 lines at the most', async (t) => {
  const own = replica('kas-0')
  for (let i = 0; i < maxOwnLines + 5; i++) own.add({ second: i })
  let release: (() => void) | undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const endpoint = ownLinesEndpoint({
    read: async (...asked) => {
      await held
      return await own.log.read(...asked)
    },
  })
  const who = { userId: 5n, isJob: false, projectIds: [], address: undefined }
  const first = endpoint.serve(requestOf(who))
  await t.rejects(endpoint.serve(requestOf(who)), { code: 'TOO_MANY_STREAMS' })
  const ofBob = endpoint.serve(requestOf({ ...who, userId: 6n }))
  release?.()
  const { lines, cut } = JSON.parse(String((await first).body)) as { lines: AccessLine[]; cut: boolean }
  t.equal(lines.length, maxOwnLines)
  t.equal(cut, true)
  t.strictSame(lines.at(-1)?.time, new Date(startMs + (maxOwnLines + 4) * 1000).toISOString(), 'the newest')
  t.strictSame(JSON.parse(String((await ofBob).body)).lines, [])
  await endpoint.serve(requestOf(who))
})

t.test('questions of many users are not refused: long answers take turns', async (t) => {
  const own = replica('kas-0')
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const endpoint = ownLinesEndpoint({
    read: async (...asked) => {
      await held
      return await own.log.read(...asked)
    },
  })
  const all = Array.from({ length: 30 }, (_, i) =>
    endpoint.serve(requestOf({ userId: BigInt(i + 1), isJob: false, projectIds: [], address: undefined })),
  )
  release()
  for (const { status } of await Promise.all(all)) t.equal(status, 200)
  t.equal(endpoint.isLong, true)
})
