import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import type { MethodRate } from '../../../../../../src/kas/agent-method.ts'
import { AgentRates, createRateMetrics } from '../../../../../../src/kas/servers/agents/limits/agent-rates.ts'
import { createRegistry } from '../../../../../../src/lib/metrics.ts'
import { capturedLog } from '../../../../../support/captured-log.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const [evil, good] = [1n, 2n] as AgentId[] as [AgentId, AgentId]
const poll = '/test.v1.Files/Poll'
const push = '/test.v1.States/Push'

function start() {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const register = createRegistry()
  const rate: MethodRate = { perSecond: 10, burst: 20, cost: { call: 2, message: 1, kib: 4 } }
  const rates = new AgentRates(
    { clock, log, onOver: createRateMetrics(register, [poll, push]) },
    { [poll]: { rate }, [push]: { rate } },
  )
  const counted = async () => {
    const { values } = (await register.getSingleMetric('kas_agent_rate_limited_total')?.get()) ?? { values: [] }
    return Object.fromEntries(
      values.filter(({ value }) => value > 0).map(({ labels, value }) => [Object.values(labels).join(' '), value]),
    )
  }
  return { clock, rates, lines, counted, register }
}

t.test('calls, messages and their bytes cost units; what is over waits', async (t) => {
  const { rates } = start()
  const rate = rates.of(poll)
  t.equal(rate.call(evil), 0)
  t.equal(rate.message(evil, 512), 0, '5 of 20 units are spent')
  t.equal(rate.work(evil, 15), 0)
  t.equal(rate.message(evil, 0), 100)
  t.equal(rate.message(evil, 1024), 600, 'one after another')
  t.equal(rate.call(good), 0, 'another agent has its own')
  t.equal(rates.of(push).call(evil), 0, 'and another method')
})

t.test('a call that would wait for too long is refused, and costs nothing', async (t) => {
  const { clock, rates, counted } = start()
  const rate = rates.of(poll)
  rate.work(evil, 20 + 300)
  t.throws(() => rate.call(evil), {
    code: 'TOO_MANY_STREAMS',
    message: /calls and messages of Files\/Poll of this agent at this replica, in units a second, allowed: 10/,
  })
  t.equal(rate.message(evil, 0), 30_100, 'a message waits, however long: it is one of few')
  clock.advance(1000)
  t.equal(rate.call(evil), 29_300, 'the refused one was not charged')
  t.strictSame(await counted(), { 'Files/Poll slowed': 3, 'Files/Poll refused': 1 })
})

t.test('the log names the agent and the method, once a minute for each agent', async (t) => {
  const { clock, rates, lines } = start()
  const rate = rates.of(poll)
  for (let i = 0; i < 100; i++) rate.message(evil, 0)
  rates.of(push).work(evil, 100)
  rate.work(good, 50)
  const said = () => lines.map(({ agent_id, grpc_method, level }) => [agent_id, grpc_method, level].join(' '))
  t.strictSame(said(), ['1 Files/Poll warn', '2 Files/Poll warn'])
  clock.advance(60_000)
  rates.of(push).work(evil, 1000)
  t.strictSame(said().slice(2), ['1 States/Push warn'])
})

t.test('all methods are metrics from the start', async (t) => {
  const { register } = start()
  const { values } = (await register.getSingleMetric('kas_agent_rate_limited_total')?.get()) ?? { values: [] }
  t.strictSame(
    values.map(({ labels }) => Object.values(labels).join(' ')),
    ['Files/Poll slowed', 'Files/Poll refused', 'States/Push slowed', 'States/Push refused'],
  )
})

t.test('a method without a rate is refused by its name', async (t) => {
  const planted = { rate: undefined } as unknown as { rate: MethodRate }
  const { log } = capturedLog()
  const components = { clock: new ManualClock(), log, onOver: () => undefined }
  t.throws(() => new AgentRates(components, { '/test.Planted/Call': planted }), /\/test\.Planted\/Call .* has no rate/)
})
