import t from 'tap'
import { FollowSteps } from '../../../../../../src/kas/modules/views/feed/follow-steps.ts'

const wanted = { caller: { key: 'ada' }, as: undefined, query: Buffer.from('{"view":"tree"}') }

t.test('of views that were closed before the agent has read of them nothing is kept', async (t) => {
  const steps = new FollowSteps()
  const open = steps.open(wanted, { pages: new Map(), resumes: false })
  for (let i = 0; i < 1000; i++) {
    const view = steps.open(wanted, { pages: new Map(), resumes: false })
    view.page('node', { limit: 10, offset: 0 })
    view.close()
  }
  t.equal(steps.waiting, 1)
  const said = steps[Symbol.asyncIterator]()
  await said.next()
  t.equal(steps.waiting, 0)
  open.page('node', { limit: 10, offset: 0 })
  open.page('node', { limit: 0, offset: 0 })
  t.equal(steps.waiting, 0, 'nor of a node that it has not heard of')
  open.page('node', { limit: 10, offset: 0 })
  open.drop()
  t.equal(steps.waiting, 0, 'nor of a view that has ended there')
})
