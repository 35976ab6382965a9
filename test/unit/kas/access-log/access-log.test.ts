import t from 'tap'
import { AccessLog, type AccessLogOptions } from '../../../../src/kas/access-log/access-log.ts'
import { createRegistry } from '../../../../src/lib/metrics.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function ground(options: Partial<AccessLogOptions> = {}) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const register = createRegistry()
  const writes: { text: string; done: (error?: Error) => void }[] = []
  const arrived: (() => void)[] = []
  const sink = {
    write(bytes: Buffer, from: number, done: (to: number, error?: Error) => void) {
      const end = (error?: Error) => done(error ? from : bytes.length, error)
      writes.push({ text: bytes.subarray(from).toString(), done: end })
      arrived.shift()?.()
    },
    writeNow: () => undefined,
  }
  const access = new AccessLog(
    { sink, clock, register, log },
    { entry: 'kas-0', execCommand: 'program', keepsRecent: true, ...options },
  )
  const connected = () => access.event('agent_connected', 'session', 'agent 42', { agent_id: '42' })
  const written = async () => {
    if (writes.length === 0) await new Promise<void>((resolve) => arrived.push(resolve))
    return writes.shift() as (typeof writes)[number]
  }
  const count = async (name: string) => {
    const { values } = (await register.getSingleMetric(name)?.get()) ?? { values: [] }
    return values.reduce((sum, { value }) => sum + value, 0)
  }
  return { access, clock, lines, written, connected, count }
}

t.test('a line, and what counts it', async (t) => {
  const { access, connected, written, count } = ground()
  connected()
  const { text, done } = await written()
  t.strictSame(JSON.parse(text), {
    time: '2026-06-01T00:00:00.000Z',
    event: 'agent_connected',
    class: 'session',
    agent_id: '42',
    entry: 'kas-0',
  })
  done()
  t.equal(await count('kas_access_log_lines_total'), 1)
  t.equal(await count('kas_access_log_lost_lines_total'), 0)
  t.strictSame([...(access.recent?.matching({ agent: '42' }) ?? [])], [text])
  await access.stop()
})

t.test('rules are of what is no call too', async (t) => {
  const { access, connected } = ground({ rules: [{ level: 'none', agents: ['42'] }, { level: 'metadata' }] })
  connected()
  t.equal([...(access.recent?.matching({}) ?? [])].length, 0)
})

t.test('one token that connects 195 times in 8 s: 20 lines of each event, and the others as one', async (t) => {
  const { access, clock } = ground()
  const fields = { agent_id: '42', agent: 'prod', project: 'p/q', address: '10.0.0.7' }
  for (let i = 0; i < 195; i++) {
    access.event('agent_connected', 'session', 'agent 42', fields)
    access.event('agent_disconnected', 'session', 'agent 42', { ...fields, ms: 41 })
    if (i % 25 === 24) clock.advance(1000)
  }
  access.event('agent_connected', 'session', 'agent 43', { agent_id: '43' })
  const lines = () => [...(access.recent?.matching({}) ?? [])].map((text) => JSON.parse(text))
  t.equal(lines().length, 41)
  t.match(lines().at(-1), { agent_id: '43' }, 'another agent has its line at once')
  clock.advance(60_000)
  const counted = lines().slice(41)
  t.match(counted, [
    { event: 'agent_connected', class: 'session', ...fields, count: 175, since: '2026-06-01T00:00:00.000Z' },
    { event: 'agent_disconnected', class: 'session', ...fields, count: 175 },
  ])
  t.equal(counted.length, 2)
  t.notOk(
    counted.some(({ ms }) => ms !== undefined),
    'how long one lasted is not said of many',
  )
  t.ok(
    Buffer.byteLength(
      lines()
        .map((line) => JSON.stringify(line))
        .join('\n'),
    ) < 10_000,
  )
  access.event('agent_connected', 'session', 'agent 42', fields)
  const stopped = access.stop()
  clock.advance(2000) // nobody reads the waiting lines
  await stopped
  const told = lines().filter(({ event, agent_id: id }) => event === 'agent_connected' && id === '42')
  t.equal(
    told.reduce((sum, { count = 1 }) => sum + count, 0),
    196,
    'none is lost, those of the last minute neither',
  )
})

t.test('connections from another network have lines of their own, however many one makes', async (t) => {
  const { access, clock } = ground()
  const connected = (address: string) =>
    access.event('agent_connected', 'session', 'agent 42', { agent_id: '42', address })
  for (let i = 0; i < 50; i++) connected('192.0.2.7')
  connected('198.51.100.9')
  connected('192.0.2.8')
  const told = [...(access.recent?.matching({}) ?? [])].map((text) => JSON.parse(text).address)
  t.equal(told.length, 21)
  t.equal(told.at(-1), '198.51.100.9')
  const stopped = access.stop()
  access.flushNow()
  clock.advance(2000)
  await stopped
})

t.test('what cannot be written is in the log of kas once a minute', async (t) => {
  const { clock, lines, connected, written } = ground()
  connected()
  for (let i = 0; i < 3; i++) {
    const { done } = await written()
    done(new Error('ENOSPC: no space left on device'))
    clock.advance(1000)
  }
  t.match(lines, [{ level: 'warn', msg: 'The access log cannot be written', reason: /ENOSPC/ }])
  t.equal(lines.length, 1)
  const { done } = await written()
  done()
})

t.test('at the end lines have some time, and those that nobody takes are counted', async (t) => {
  const { access, clock, lines, connected, written } = ground()
  connected()
  const { done } = await written()
  connected()
  connected()
  const stopped = access.stop()
  clock.advance(2000)
  await stopped
  t.match(lines, [{ level: 'warn', count: 2 }])
  done()
})
