import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { Router, type RouterComponents } from '../../../../src/kas/router/router.ts'

const agentId = 42n as AgentId
const method = '/test.Views/Follow'

/** @param here - this replica's tunnels: whether it has the agent, and whether they serve the method; `there`: peers */
function routerWith(
  here: { isHolder: boolean; serves: boolean },
  there?: { isHolder: boolean; serves: boolean },
): Router {
  const tunnels = { holds: () => here.isHolder, serves: () => here.serves }
  const links = there && { holds: () => there.isHolder, serves: () => there.serves }
  const observer = { routed: () => undefined, timedOut: () => undefined }
  return new Router({ tunnels, observer, links } as unknown as RouterComponents)
}

t.test('whether an agent serves a method, here or at a peer', async (t) => {
  const none = { isHolder: false, serves: false }
  const stock = { isHolder: true, serves: false }
  const ours = { isHolder: true, serves: true }
  t.equal(routerWith(ours).serves(agentId, method), true)
  t.equal(routerWith(stock).serves(agentId, method), false)
  t.equal(routerWith(none).serves(agentId, method), undefined)
  t.equal(routerWith(stock, ours).serves(agentId, method), true)
  t.equal(routerWith(none, stock).serves(agentId, method), false)
  t.equal(routerWith(none, none).serves(agentId, method), undefined)
})
