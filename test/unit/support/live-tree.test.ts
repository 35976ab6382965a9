import t from 'tap'
import { testEndpoint } from '../../support/test-endpoint.ts'
import { LiveTree } from '../../support/views/live-tree.ts'
import { startViewsServer } from '../kas/modules/views/cli/views-server.ts'

const root = { order: [], counts: {}, more: 0 }
const timeoutMs = 5000

async function follow(t: Parameters<typeof startViewsServer>[0]) {
  const { url, viewer } = await startViewsServer(t)
  const endpoint = testEndpoint({ url, agentId: '1', authorization: 'Bearer x' })
  const tree = new LiveTree({ endpoint, query: { view: 'tree', scope: { namespaces: ['shop'] } } })
  t.teardown(() => tree.stop())
  const first = await viewer()
  first.update({ seq: 1, state: { is: 'live', since: 1 }, pages: { '': root } })
  await tree.until('the view is live', () => tree.isLive, timeoutMs)
  return { tree, viewer, first }
}

t.test('a view that is refused in the middle is live no longer', async (t) => {
  const { tree, first } = await follow(t)
  first.error('FORBIDDEN', 'not any more')
  const ended = tree.until('it is shown', () => tree.roots.length > 0, timeoutMs)
  await t.rejects(ended, { message: 'it is shown: the view has ended: not any more (FORBIDDEN)' })
  t.notOk(tree.isLive)
})

t.test('a view whose connection is lost is live again when it is whole again', async (t) => {
  const { tree, viewer, first } = await follow(t)
  first.cut()
  await tree.until('it is lost', () => !tree.isLive, timeoutMs)
  const second = await viewer()
  second.update({ seq: 1, state: { is: 'live', since: 1 }, pages: { '': root } })
  await t.resolves(tree.until('the view is live again', () => tree.isLive, timeoutMs))
})
