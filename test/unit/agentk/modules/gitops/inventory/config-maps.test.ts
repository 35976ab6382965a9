import t from 'tap'
import { ConfigMaps } from '../../../../../../src/agentk/modules/gitops/inventory/config-maps.ts'

t.test('a list whose server always names a next page is an error', async (t) => {
  let asked = 0
  const maps = (pages: number) =>
    new ConfigMaps(
      {
        json: async () => {
          asked += 1
          const item = { metadata: { name: `m${asked}` } }
          return { status: 200, body: { items: [item], metadata: asked < pages ? { continue: 'more' } : {} } }
        },
      },
      'gitops',
    )
  const { signal } = new AbortController()
  await t.rejects(maps(Number.POSITIVE_INFINITY).list('a=b', signal), { message: /more than 1000 pages/ })
  t.equal(asked, 1000)
  asked = 0
  t.equal((await maps(1000).list('a=b', signal)).length, 1000)
})
