import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { ManualClock } from '../../../support/manual-clock.ts'
import { begin, frozen, kasOf, kubeconfigText, listen } from './unreached-ground.ts'

/** Commands whose time ends while kas is frozen: at once, after some answers, or in the middle of one. */

const env = { KUBECONFIG: 'config', KAS_OPS_SOCKET: 'ops' }
const stepMs = 100

interface Ended {
  readonly code: number
  /** duration by the command's clock */
  readonly ms: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command to its end. The clock moves only while the command waits for a timer. */
async function run(line: string): Promise<Ended> {
  const clock = new ManualClock()
  const beganAt = clock.now()
  const { said, code } = begin(line, { clock, env })
  let ended: number | undefined
  void code.then((found) => {
    ended = found
  })
  for (;;) {
    while (ended === undefined && clock.pending === 0) await new Promise(setImmediate) // the command reads its files
    for (let turn = 0; turn < 50 && ended === undefined; turn++) await new Promise(setImmediate)
    if (ended !== undefined) break
    clock.advance(stepMs)
  }
  return { code: ended, ms: clock.now() - beganAt, ...said }
}

async function at(t: Test, server: string): Promise<string> {
  t.chdir(t.testdir({}))
  await writeFile('config', kubeconfigText(server))
  return `${new URL(server).host} (config, context x)`
}

/** Starts a kas that gives the answers of `whole`, then only a head and half a body. */
async function halfway(t: Test, whole: readonly object[] = []): Promise<string> {
  const rest = [...whole]
  const server = createServer((_, response) => {
    const next = rest.shift()
    if (next) return void response.end(JSON.stringify(next))
    response.writeHead(200, { 'content-length': '1000' }).write('{"sources":[')
  })
  return `http://127.0.0.1:${await listen(t, server)}/k8s-proxy/`
}

const noAnswer = (where: string) =>
  `kas: no answer from ${where} yet: kas there may be starting or overloaded, or it is another program\n`
const notKnown = (seconds: number) => `kas gitops: the status is still not known after ${seconds} s\n`

const gates: [line: string, seconds: number][] = [
  ['gitops status --wait 500ms', 2],
  ['gitops status --wait 10s', 10],
  ['gitops status --wait 1m', 60],
  ['gitops status --commit abcdef12 --wait 17s', 18],
  ['gitops status --commit abcdef12', 20],
]
const kinds = { 'from the beginning': frozen, 'in the middle of each answer': halfway }

for (const [name, place] of Object.entries(kinds)) {
  t.test(`kas is frozen ${name}: a gate ends within 2 s of its time, and says once what is the matter`, async (t) => {
    const where = await at(t, await place(t))
    for (const [line, seconds] of gates) {
      const { code, ms, stdout, stderr } = await run(line)
      t.equal(code, 5, line)
      t.equal(stdout, '', line)
      t.equal(stderr, noAnswer(where) + notKnown(seconds), line)
      t.ok(Math.abs(ms - seconds * 1000) <= 2 * stepMs, `${line}: ${ms} ms`)
    }
  })
}

t.test('kas freezes after an answer: what it said is shown, and is not the verdict', async (t) => {
  const source = { source: '42-7', commit: 'a', wanted: 'b', phase: 'APPLYING', problem: '', trouble: [], stale: false }
  const polled = { commit: 'b', age_ms: 0 }
  const configuration = { commit: 'c', polled: { commit: 'c', age_ms: 0 } }
  const state = { sources: [{ ...source, polled }], agent: 'connected', configuration }
  const where = await at(t, await halfway(t, [state]))
  const { code, ms, stdout, stderr } = await run('gitops status --wait 10s')
  t.equal(code, 5)
  t.match(stdout, /^SOURCE .*\n42-7 +- +APPLYING /)
  t.equal(stderr, `kas: 42-7: APPLYING\n${noAnswer(where)}${notKnown(10)}`)
  t.ok(ms <= 12_000, `${ms} ms`)
})

t.test('an agent that is away: its absence is said once on each output', async (t) => {
  const text = 'No replica has had agent 42 since 2026-06-01T00:00:00Z, for 60 s'
  await at(t, await kasOf(t, { sources: [], agent: 'absent', away: { text } }))
  const { code, ms, stdout, stderr } = await run('gitops status --wait 10s')
  t.equal(code, 5)
  t.equal(stdout, `nothing is known of the sources of agent 42: ${text}\n`)
  t.equal(stderr, `kas: ${text}\n${notKnown(10)}`)
  t.ok(ms <= 12_000, `${ms} ms`)
})

const others: [line: string, ms: number, code: number, last: string][] = [
  ['gitops status', 15_000, 1, 'kas did not answer within 15 s'],
  ['gitops forget shop', 15_000, 1, 'kas did not answer within 15 s'],
  ['gitops pause shop --yes', 15_000, 1, 'kas did not answer within 15 s'],
  ['agents', 15_000, 1, 'kas did not answer within 15 s'],
  ['views role', 25_000, 1, 'kas did not answer within 25 s'],
  ['health --application shop --wait 10s', 10_000, 5, 'kas health: kas did not answer within 10 s'],
  ['tree --application shop', 30_000, 1, 'kas did not answer within 30 s'],
  ['get events --application shop', 30_000, 1, 'kas did not answer within 30 s'],
]

for (const [name, place] of Object.entries(kinds)) {
  t.test(`kas is frozen ${name}: the other commands end at their time, too`, async (t) => {
    const where = await at(t, await place(t))
    for (const [line, atMs, exit, last] of others) {
      const { code, ms, stdout, stderr } = await run(line)
      t.equal(code, exit, line)
      t.equal(stdout, '', line)
      t.equal(stderr, `${noAnswer(where)}${last}\n`, line)
      t.ok(Math.abs(ms - atMs) <= 2 * stepMs, `${line}: ${ms} ms`)
    }
  })
}

t.test('kas freezes before the events and the log of what is degraded: they have 5 s', async (t) => {
  const cause = { kind: 'Pod', namespace: 'shop', name: 'web-1', id: 'p', reason: 'CrashLoop', text: 'container app' }
  const next = 'kubectl -n shop logs web-1 -c app --previous'
  const row = {
    u: 'w',
    k: 'Pod',
    ns: 'shop',
    n: 'web-1',
    h: ['Degraded', 'Failed', 'Degraded'],
    z: { ...cause, next },
  }
  const pages = { '': { order: ['w'], counts: {}, more: 0 } }
  const update = { seq: 1, at: 1, rows: [row], pages, state: { is: 'live', since: 0 } }
  await at(t, await kasOf(t, { sources: [], agent: 'connected' }, { type: 'update', id: 1, update }))
  const { code, ms, stdout } = await run('health -A --wait 10s')
  t.equal(code, 4)
  t.match(stdout, /its events cannot be read: kas did not answer within 5 s\n/)
  t.match(stdout, /its log cannot be read: kas did not answer within 5 s\n/)
  t.ok(ms <= 15_000, `${ms} ms`)
})

t.test('a replica that freezes in the middle of an answer on its socket', async (t) => {
  t.chdir(t.testdir({}))
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-length': '1000' }).write('{"replica":')
  })
  await new Promise<void>((resolve) => void server.listen('ops', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  for (const line of ['status', 'route --agent 42', 'sessions', 'sessions end --user ada', 'log']) {
    const { code, ms, stdout, stderr } = await run(line)
    t.equal(code, 1, line)
    t.equal(stdout, '', line)
    t.match(stderr, /the kas on ops did not answer within 10000 ms\n$/, line)
    t.ok(Math.abs(ms - 10_000) <= 2 * stepMs, `${line}: ${ms} ms`)
  }
})
