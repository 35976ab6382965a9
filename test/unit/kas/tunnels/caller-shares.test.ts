import t from 'tap'
import { gitlabCaller, kasCaller } from '../../../../src/call/caller.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { agentId, callersGround as ground, method, settled, type Waiting } from './callers-ground.ts'

/** Scarce tunnels: which callers get one, wait or are refused. */

/** Returns the code of a refusal, if there is one by now. */
const codeOf = async (waiting: Waiting) => {
  await settled()
  return waiting.code
}

t.test('who holds more than his share waits no more once another has waited for 200 ms', async (t) => {
  const { add, take, wait, pass } = ground()
  add(10)
  take('greedy', 9, true)
  take('other', 1)
  const own = wait('greedy')
  const others = wait('other')
  await pass(199)
  t.equal(own.code, undefined, 'a new one might still come')
  await pass(1)
  t.equal(own.code, 'CALLER_OVER_SHARE')
  t.match(own.error?.spec, { agentId: '42', held: 9, living: 10, watches: 9, retryAfterS: 9 })
  t.match(
    own.error?.message,
    /^You hold 9 of the 10 tunnels that agent 42 has here, 9 of them watches, and others wait/,
  )
  t.equal(others.code, undefined, 'within its share')
  t.equal(await codeOf(wait('greedy')), 'CALLER_OVER_SHARE', 'at once')
  t.equal(await codeOf(wait('third')), undefined)
})

t.test('a caller alone has all, and waits as long as he likes', async (t) => {
  const { add, take, wait, pass } = ground()
  add(4)
  take('greedy', 4)
  const own = wait('greedy')
  await pass(10_000)
  t.equal(own.code, undefined)
})

t.test('a far agent has three round trips', async (t) => {
  const { connection, add, take, wait, pass } = ground()
  connection.roundTripMs = 150
  add(4)
  take('greedy', 4)
  const own = wait('greedy')
  wait('other')
  await pass(400)
  t.equal(own.code, undefined)
  await pass(200)
  t.equal(own.code, 'CALLER_OVER_SHARE')
})

t.test('nobody is refused any more once nobody waits', async (t) => {
  const { tunnels, add, take, wait, pass } = ground()
  add(4)
  const [first] = take('greedy', 4)
  const other = wait('other')
  await pass(200)
  t.equal(await codeOf(wait('greedy')), 'CALLER_OVER_SHARE')
  tunnels.giveBack(agentId, first as Tunnel)
  await settled()
  t.equal(other.got, first)
  const again = wait('greedy')
  t.equal(again.code, undefined, 'a call of his may wait as any')
  await pass(200)
  t.equal(again.code, 'CALLER_OVER_SHARE', 'he holds 3 of 4, another one')
})

t.test('callers take turns, however many of one wait', async (t) => {
  const { add, take, wait } = ground()
  add(2)
  take('holder', 2)
  const many = Array.from({ length: 20 }, () => wait('many'))
  const [one, two] = [wait('one'), wait('two')]
  add(3)
  await settled()
  t.same(
    [many[0], one, two].map((each) => each?.got !== undefined),
    [true, true, true],
  )
  t.equal(many.filter(({ got }) => got).length, 1)
})

t.test('where a thousand may wait, he who waits most makes room', async (t) => {
  const { add, take, wait } = ground()
  add(1)
  take('holder', 1)
  const many = Array.from({ length: 100 }, () => wait('many'))
  const one = wait('one')
  await settled()
  t.equal(one.code, undefined)
  t.equal(many.at(-1)?.code, 'TOO_MANY_WAITING')
  t.equal(many.filter(({ code }) => code).length, 1)
  t.equal(await codeOf(wait('many')), 'TOO_MANY_WAITING')
})

t.test('while the agent opens more, none is scarce', async (t) => {
  const { add, take, wait, pass } = ground()
  add(10)
  take('greedy', 10)
  const others = [wait('other'), wait('other')]
  const own = wait('greedy')
  await pass(150)
  add(1)
  await pass(150)
  t.equal(own.code, undefined)
  await pass(100)
  t.equal(own.code, 'CALLER_OVER_SHARE', 'it has opened none for 200 ms')
  t.equal(others.filter(({ got }) => got).length + (own.got ? 1 : 0), 1)
})

t.test('an agent that once had more opens more again: none is scarce meanwhile', async (t) => {
  const { add, take, wait, pass } = ground()
  for (const tunnel of add(20).slice(4)) tunnel.retire()
  await settled()
  take('greedy', 4)
  const others = [wait('other'), wait('other')]
  const own = wait('greedy')
  await pass(150)
  add(1)
  await pass(150)
  t.equal(own.code, undefined, 'one came 150 ms ago')
  await pass(100)
  t.equal(own.code, 'CALLER_OVER_SHARE', 'it has opened none for 200 ms')
  t.equal(others.filter(({ got }) => got).length + (own.got ? 1 : 0), 1)
})

t.test('a tunnel that came while others were asked for one is not waited for', async (t) => {
  const { tunnels, add, take, wait, request } = ground()
  const [first] = add(2)
  t.equal(take('one', 2)[0], first)
  t.equal(tunnels.take(request('other')), undefined)
  tunnels.giveBack(agentId, first as Tunnel)
  const other = wait('other')
  await settled()
  t.equal(other.got, first)
  t.equal(tunnels.counts(agentId, method).waiting, 0)
})

t.test('watches and what cannot be ended count alike: who changes from one to the other has no more', async (t) => {
  const { add, take, wait, pass } = ground()
  add(10)
  take('greedy', 5, true)
  take('greedy', 4)
  take('other', 1)
  const [watch, exec] = [wait('greedy', { isWatch: true }), wait('greedy')]
  wait('other')
  await pass(200)
  for (const one of [watch, exec, wait('greedy', { isWatch: true }), wait('greedy')]) {
    t.equal(await codeOf(one), 'CALLER_OVER_SHARE')
    t.match(one.error?.spec, { held: 9, living: 10, watches: 5 })
  }
})

t.test('who waits for what no tunnel serves makes nothing scarce', async (t) => {
  const { tunnels, add, take, request, pass } = ground()
  add(4)
  take('greedy', 4, true)
  const forever = new AbortController().signal
  tunnels.wait({ ...request('gitlab'), method: '/un.Known/Method' }, forever).catch(() => undefined)
  const own = { code: '' }
  tunnels.wait(request('greedy'), forever).catch((error: unknown) => {
    own.code = KasError.from(error).code
  })
  await pass(1000)
  t.equal(own.code, '')
})

t.test('GitLab and kas are counted, and not refused', async (t) => {
  for (const { key } of [gitlabCaller, kasCaller]) {
    const { add, take, wait, pass } = ground()
    add(4)
    take(key, 4)
    const own = wait(key)
    wait('other')
    await pass(1000)
    t.equal(own.code, undefined, key)
  }
})

t.test('forty callers, one behind the other: each within his share, and none is locked out', async (t) => {
  const { tunnels, add, take, wait, pass } = ground()
  add(500)
  const taken = Array.from({ length: 40 }, (_, i) => take(`project ${i}`, i < 20 ? 13 : 12)).flat()
  t.equal(taken.length, 500)
  const refused = wait('project 0')
  const user = wait('user')
  await pass(200)
  t.equal(refused.code, 'CALLER_OVER_SHARE', '13 of 500 by 41 callers is more than a share')
  tunnels.giveBack(agentId, taken[0] as Tunnel)
  await settled()
  t.ok(user.got)
})

t.test('who leaves is counted no more', async (t) => {
  const { add, take, wait, pass } = ground()
  add(4)
  take('greedy', 4)
  const other = wait('other')
  await pass(200)
  t.equal(await codeOf(wait('greedy')), 'CALLER_OVER_SHARE')
  other.leave(new KasError({ code: 'CANCELLED' }))
  await settled()
  const own = wait('greedy')
  await pass(1000)
  t.equal(own.code, undefined)
})
