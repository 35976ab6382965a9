import t from 'tap'
import { ApiLiveness } from '../../../../src/agentk/cluster/api-liveness.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { ScriptedApi } from './scripted-api.ts'

function start() {
  const api = new ScriptedApi()
  const clock = new ManualClock()
  const liveness = new ApiLiveness({ client: api, clock })
  let silences = 0
  const forget = liveness.onUnanswered(() => silences++)
  return { api, clock, forget, silences: () => silences }
}

t.test('a server that answers whatever it is, is there', async (t) => {
  const { api, clock, silences, forget } = start()
  for (const status of [200, 403, 500]) {
    await clock.pass(15_000)
    await (await api.ask('/version')).answer(status)
  }
  await clock.pass(14_999)
  t.strictSame([silences(), await api.waiting()], [0, []])
  forget()
  t.strictSame(clock.waits, [])
})

t.test('without an answer for 15 s it counts as dead, as often as that is so', async (t) => {
  const { api, clock, silences, forget } = start()
  await clock.pass(29_999)
  t.equal(silences(), 0)
  await clock.pass(1)
  t.equal(silences(), 1)
  await clock.pass(30_000)
  t.equal(silences(), 2)
  await clock.pass(15_000)
  t.equal((await api.waiting()).length, 3)
  forget()
  await clock.pass(0)
  t.strictSame(clock.waits, [], 'nobody wants to know')
})

t.test('a question that fails is asked again: one failure is no silence', async (t) => {
  const { api, clock, silences, forget } = start()
  await clock.pass(15_000)
  await (await api.ask('/version')).fail(new Error('ECONNRESET'))
  await clock.pass(1000)
  await (await api.ask('/version')).answer(200)
  await clock.pass(15_000)
  for (let i = 0; i < 15; i++) {
    await (await api.ask('/version')).fail(new Error('ECONNREFUSED'))
    t.equal(silences(), 0)
    await clock.pass(1000)
  }
  t.equal(silences(), 1)
  forget()
})
