import t from 'tap'
import { gitlabCaller } from '../../../../src/call/caller.ts'
import type { Tunnel } from '../../../../src/kas/tunnels/tunnel.ts'
import type { TunnelRequest } from '../../../../src/kas/tunnels/tunnel-shares.ts'
import { agentId, callersGround as ground, settled } from './callers-ground.ts'

/** The last tunnels of a connection are for callers that hold few. */

t.test('the last tunnels of a connection are for who holds few', async (t) => {
  const { tunnels, add, take, wait, request } = ground({ plentyPerConnection: 8 })
  add(10)
  const taken = take('greedy', 8)
  t.equal(tunnels.take(request('greedy')), undefined)
  const own = wait('greedy')
  t.ok(tunnels.take(request('other')))
  t.ok(tunnels.take({ ...request(''), caller: gitlabCaller }))
  for (const tunnel of taken.slice(0, 2)) tunnels.giveBack(agentId, tunnel)
  await settled()
  t.equal(own.got, undefined, 'eight are still taken')
  tunnels.giveBack(agentId, taken[2] as Tunnel)
  await settled()
  t.ok(own.got, 'it waited for one of the others')
})

/** Returns a job that `user` started. */
const job = (project: number, user: string): Pick<TunnelRequest, 'caller'> => ({
  caller: { key: `project ${project}`, userKey: user },
})

t.test('one user with jobs in 40 projects: of the last tunnels he has no more than as one', async (t) => {
  const { tunnels, add, take, wait, request } = ground({ plentyPerConnection: 450, few: 10 })
  add(500)
  const all = take('user', 450)
  const taken = Array.from({ length: 40 }, (_, i) => tunnels.take({ ...request(''), ...job(i, 'user') }))
  t.equal(taken.filter(Boolean).length, 0)
  const own = wait('', job(0, 'user'))
  t.ok(tunnels.take({ ...request(''), ...job(0, 'another') }), 'a job of somebody else, in one of these projects')
  t.ok(tunnels.take(request('other')))
  t.equal(own.got, undefined)
  for (const tunnel of all.slice(0, 3)) tunnels.giveBack(agentId, tunnel)
  await settled()
  t.ok(own.got, 'of the first 450 each project has its share')
})

t.test('one user with nothing but jobs in 40 projects has ten of the last tunnels', async (t) => {
  const { tunnels, add, request } = ground({ plentyPerConnection: 0, few: 10 })
  add(50)
  const taken = Array.from({ length: 40 }, (_, i) => tunnels.take({ ...request(''), ...job(i, 'user') }))
  t.equal(taken.filter(Boolean).length, 10)
  for (const tunnel of taken.slice(0, 2)) tunnels.giveBack(agentId, tunnel as Tunnel)
  const again = Array.from({ length: 40 }, (_, i) => tunnels.take({ ...request(''), ...job(i, 'user') }))
  t.equal(again.filter(Boolean).length, 2, 'what was given back is counted no more')
})
