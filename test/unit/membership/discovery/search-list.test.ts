import t from 'tap'
import { fullNames, parseSearchList, readSearchList } from '../../../../src/membership/discovery/search-list.ts'

t.test('a pod has domains and five dots', async (t) => {
  const text =
    'search gitlab.svc.cluster.local svc.cluster.local. cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n'
  const list = parseSearchList(text)
  t.strictSame(list, { domains: ['gitlab.svc.cluster.local', 'svc.cluster.local', 'cluster.local'], ndots: 5 })
  t.strictSame(fullNames('kas.gitlab.svc', list), [
    'kas.gitlab.svc.gitlab.svc.cluster.local',
    'kas.gitlab.svc.svc.cluster.local',
    'kas.gitlab.svc.cluster.local',
    'kas.gitlab.svc',
  ])
  t.strictSame(fullNames('a.b.c.d.e.f', list)[0], 'a.b.c.d.e.f')
  t.strictSame(fullNames('kas.gitlab.svc.', list), ['kas.gitlab.svc'])
})

t.test('the last word counts, odd ones do not', async (t) => {
  t.strictSame(parseSearchList('search a b\n  domain c d\n'), { domains: ['c'], ndots: 1 })
  t.strictSame(parseSearchList('domain a\nsearch b\noptions timeout:1 ndots:2 ndots:3'), { domains: ['b'], ndots: 3 })
  t.strictSame(parseSearchList('options ndots:99\nsearch .\n# search x\n'), { domains: [], ndots: 15 })
  t.strictSame(parseSearchList('options ndots:x\nnonsense'), { domains: [], ndots: 1 })
  t.equal(parseSearchList(`search ${'a '.repeat(100)}`).domains.length, 32)
})

t.test('a system without the file has no domains', async (t) => {
  t.strictSame(await readSearchList(`${t.testdir({})}/resolv.conf`), { domains: [], ndots: 1 })
})
