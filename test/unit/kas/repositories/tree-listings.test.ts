import t from 'tap'
import type { CommitId } from '../../../../src/kas/repositories/repositories.ts'
import { type ListTree, TreeListings } from '../../../../src/kas/repositories/tree-listings.ts'

const commit = 'a'.repeat(40) as CommitId
const other = 'b'.repeat(40) as CommitId
const { signal } = new AbortController()
const line = (path: string, size = '7') => `100644 blob ${'c'.repeat(40)} ${size.padStart(7)}\t${path}\0`

/** Listings that wait until the test begins and answers each. */
function listings() {
  const begun: (Parameters<ListTree>[0] & { answer: (listed: string) => void; fail: (error: Error) => void })[] = []
  const all = new TreeListings((listing) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    listing.signal.addEventListener('abort', () => reject(listing.signal.reason))
    begun.push({ ...listing, answer: resolve, fail: reject })
    return promise
  })
  return { all, begun }
}

t.test('what is asked of a commit while its listing waits goes along', async (t) => {
  const { all, begun } = listings()
  const found = [all.entry(commit, 'a', signal), all.entry(commit, 'b', signal), all.entry(commit, 'a', signal)]
  const elsewhere = all.entry(other, 'a', signal)
  t.equal(begun.length, 2, 'one for each commit')
  t.strictSame(begun[0]?.take(), ['a', 'b'])
  const late = all.entry(commit, 'c', signal)
  t.equal(begun.length, 3, 'after its turn another one begins')
  begun[0]?.answer(`${line('b', '12')}040000 tree ${'d'.repeat(40)}       -\ta\0`)
  const [a, b, again] = await Promise.all(found)
  t.match(a, { mode: '040000', size: Number.NaN })
  t.match(b, { mode: '100644', blob: 'c'.repeat(40), size: 12 })
  t.equal(again, a)
  begun[1]?.answer('')
  t.equal(await elsewhere, undefined)
  t.strictSame(begun[2]?.take(), ['c'])
  begun[2]?.answer(line('c\nd'))
  t.equal(await late, undefined)
})

t.test('a listing that fails fails for all of it', async (t) => {
  const { all, begun } = listings()
  const asked = [all.entry(commit, 'a', signal), all.entry(commit, 'b', signal)]
  begun[0]?.take()
  begun[0]?.fail(new Error('broken'))
  for (const one of asked) await t.rejects(one, { message: 'broken' })
})

t.test('who leaves ends it for nobody else, and the last one ends it', async (t) => {
  const { all, begun } = listings()
  const [first, second] = [new AbortController(), new AbortController()]
  const asked = [all.entry(commit, 'a', first.signal), all.entry(commit, 'b', second.signal)]
  first.abort(new Error('gone'))
  await t.rejects(asked[0] as Promise<unknown>, { message: 'gone' })
  t.equal(begun[0]?.signal.aborted, false)
  second.abort(new Error('gone too'))
  await t.rejects(asked[1] as Promise<unknown>, { message: 'gone too' })
  t.equal(begun[0]?.signal.aborted, true)
  const next = all.entry(commit, 'a', signal)
  t.equal(begun.length, 2, 'who comes now begins anew')
  begun[1]?.answer(line('a'))
  t.match(await next, { size: 7 })
})

t.test('a listing has at most 100 paths', async (t) => {
  const { all, begun } = listings()
  const asked = Array.from({ length: 150 }, (_, i) => all.entry(commit, `${i}`, signal))
  t.strictSame(
    begun.map(({ take }) => take().length),
    [100, 50],
  )
  for (const { answer } of begun) answer('')
  await Promise.all(asked)
})
