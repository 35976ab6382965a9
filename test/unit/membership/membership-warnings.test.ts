import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { MembershipWarnings } from '../../../src/membership/membership-warnings.ts'
import { noMetrics } from '../../../src/membership/metrics.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { head } from './rows.ts'

t.test('a private API on loopback is logged once, if there are replicas elsewhere', (t) => {
  const { log, lines } = capturedLog()
  const warnings = new MembershipWarnings({ log, metrics: noMetrics, clock: new ManualClock() })
  const onLoopback = { ...head, replicaHost: '127.0.0.1', replicaPort: 8155 }
  warnings.reachedFrom('127.0.0.1', onLoopback)
  warnings.reachedFrom('::1', onLoopback)
  warnings.reachedFrom(undefined, onLoopback)
  warnings.reachedFrom('10.0.0.7', head)
  warnings.reachedFrom('10.0.0.7', { ...head, replicaHost: '10.0.0.6' })
  t.strictSame(lines, [])
  warnings.reachedFrom('10.0.0.7', onLoopback)
  warnings.reachedFrom('10.0.0.8', onLoopback)
  t.match(lines, [
    { level: 'warn', net_address: '127.0.0.1:8155', msg: /private_api\.listen\.address, for instance to ":8155"/ },
  ])
  t.equal(lines.length, 1)
  for (const replicaHost of ['localhost', '::1', '127.8.8.8']) {
    const other = capturedLog()
    new MembershipWarnings({ log: other.log, metrics: noMetrics, clock: new ManualClock() }).reachedFrom('fd00::7', {
      ...head,
      replicaHost,
    })
    t.equal(other.lines.length, 1, replicaHost)
  }
  t.end()
})

t.test('a listed address that does not answer is logged once, after three dials in a row', (t) => {
  const { log, lines } = capturedLog()
  const warnings = new MembershipWarnings({ log, metrics: noMetrics, clock: new ManualClock() })
  const fails = () => warnings.dialled('10.0.0.7:8156', { kind: 'failed', error: new Error('no answer in time') })
  fails()
  fails()
  warnings.dialled('10.0.0.7:8156', { kind: 'refused' })
  fails()
  fails()
  t.strictSame(lines, [])
  for (let i = 0; i < 20; i++) fails()
  t.match(lines, [{ level: 'warn', net_address: '10.0.0.7:8156', error: { message: 'no answer in time' } }])
  t.equal(lines.length, 1)
  warnings.listed([])
  for (let i = 0; i < 3; i++) fails()
  t.equal(lines.length, 2, 'listed anew')
  t.end()
})

t.test(
  'an agent that a limit keeps from being published is named once in ten minutes, and a hundred agents at most',
  async (t) => {
    const { log, lines } = capturedLog()
    const clock = new ManualClock()
    const counted: string[] = []
    const metrics = { ...noMetrics, publishLimited: (reason: string) => void counted.push(reason) }
    const warnings = new MembershipWarnings({ log, metrics, clock })
    for (let i = 0; i < 3; i++) warnings.publishLimited(42n as AgentId, 'share')
    warnings.publishLimited(42n as AgentId, 'rate')
    t.match(lines, [
      { level: 'warn', agent_id: '42', msg: /1000 connections or 256 KiB/ },
      { level: 'info', agent_id: '42', msg: /some seconds late/ },
    ])
    t.equal(counted.length, 4)
    for (let i = 0; i < 500; i++) warnings.publishLimited(BigInt(i) as AgentId, 'row')
    t.equal(lines.length, 100)
    clock.advance(600_000)
    warnings.publishLimited(42n as AgentId, 'share')
    t.equal(lines.length, 101)
  },
)
