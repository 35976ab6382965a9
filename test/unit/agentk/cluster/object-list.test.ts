import t from 'tap'
import { ObjectList } from '../../../../src/agentk/cluster/object-list.ts'

const { signal } = new AbortController()
const options = { path: '/api/v1/configmaps', accept: undefined, pageSize: 500, timeoutMs: 1000 }
const pageOf = (next: string) => ({
  status: 200,
  body: { metadata: { resourceVersion: '1', continue: next }, items: [{}] },
})

/** Reads a list to its end. @returns number of pages, and the end */
async function readAll(list: ObjectList) {
  for (let pages = 1; ; pages++) {
    const page = await list.page(signal)
    if (!('items' in page)) return { pages: pages - 1, end: page }
    if (page.isLast) return { pages, end: 'last' }
  }
}

t.test('a list whose server always names a next page ends, and says so', async (t) => {
  let asked = 0
  const list = new ObjectList({ json: async () => pageOf(String(asked++)) }, options)
  const { pages, end } = await readAll(list)
  t.equal(pages, 10_000)
  t.match(end, { status: 0, count: undefined, error: { message: /more than 10000 pages/ } })
  t.match(await list.skip(signal), { status: 0 })
  t.equal(asked, 10_000, 'nothing more is asked')
})

t.test('a list of as many pages is read', async (t) => {
  let left = 10_000
  const list = new ObjectList({ json: async () => pageOf(--left > 0 ? 'more' : '') }, options)
  t.strictSame(await readAll(list), { pages: 10_000, end: 'last' })
})
