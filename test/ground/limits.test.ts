import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Bound, readBounds } from '../../dev/census/bounds.ts'
import { boundFaults, commentText, unitOf, valueText } from '../../dev/limits/bound-text.ts'
import { boundsOfLimit, limitsPage } from '../../dev/limits/limits-page.ts'
import { limitNames } from '../../src/lib/errors.ts'

/** doc/reference/limits.md is true, and each bound says what it bounds. */

const root = join(import.meta.dirname, '../..')
const bounds = readBounds(join(root, 'src'))

t.test('the page is current (npm run limits)', async (t) => {
  t.equal(readFileSync(join(root, 'doc/reference/limits.md'), 'utf8'), limitsPage(bounds))
})

t.test('each bound has a comment that fits in a cell, and a unit', async (t) => {
  t.ok(bounds.length > 700, 'they are found')
  const faults = bounds.flatMap((bound) => boundFaults(bound).map((fault) => `${bound.file}: ${bound.name}: ${fault}`))
  t.strictSame(faults, [])
})

t.test('the comment of a bound names each limit of TOO_MANY_STREAMS', async (t) => {
  const without = limitNames.filter((name) => boundsOfLimit(name, bounds).length === 0)
  t.strictSame(without, [])
})

const read = (t: Test, files: Parameters<Test['testdir']>[0]) =>
  readBounds(t.testdir(files)).map(({ name, value, comment }) => [name, value, comment])

t.test('constants are read, with the comment above and beside them', async (t) => {
  const text = `/** Bound of texts. */
export const maxTexts = 2 * count + shared.maxRows // all at once
const count = 1_000
import { bounds as shared } from './shared.ts'

// a comment of something else

const maxBytes: number = 1 << 20
const maxId = 2n ** 63n - 1n
const maxOf = (list: number[]) => Math.max(...list)
const most = 7
`
  const found = read(t, { 'a.ts': text, 'shared.ts': 'export const bounds = {\n  maxRows: 5,\n} as const\n' })
  t.strictSame(found, [
    ['maxTexts', 2005, 'Bound of texts. All at once'],
    ['maxBytes', 2 ** 20, ''],
    ['maxId', 2n ** 63n - 1n, ''],
    ['bounds.maxRows', 5, ''],
  ])
  t.throws(() => read(t, { 'a.ts': 'const maxTexts = elsewhere\n' }), /a\.ts: the value of elsewhere is no constant/)
})

t.test('members of objects are read, with the comment of their type', async (t) => {
  const text = `import type { Options } from './options.ts'

export interface Own {
  /** rows of a page */
  readonly maxRows?: number
}

const defaults = { maxRows: 20, pauseMs: 100 }
/** Limits of a peer. */
export const peerLimits: Options = {
  ...others,
  maxCalls: 4, // one each
  /** pause between two calls */
  pauseMs: 1000,
  isOn: true,
  rate: { perSecond: 2 * 1024 },
  maxTexts: maxCalls,
}
const maxCalls = 3 // calls
const table = { maxRows: (row: { maxBytes: number }) => row }
const unbounded = { maxRows: Number.POSITIVE_INFINITY }
`
  const options = 'export interface Options {\n  /** calls at once */\n  readonly maxCalls: number\n}\n'
  t.strictSame(read(t, { 'a.ts': text, 'options.ts': options }), [
    ['defaults.maxRows', 20, 'rows of a page'],
    ['peerLimits.maxCalls', 4, 'calls at once. One each'],
    ['peerLimits.pauseMs', 1000, 'pause between two calls'],
    ['peerLimits.rate.perSecond', 2048, 'Limits of a peer.'],
    ['maxCalls', 3, 'calls'],
  ])
})

const bound = (name: string, value: number, comment = ''): Bound => ({ name, file: 'a.ts', value, comment })

t.test('values have their unit, by the name or by the comment', async (t) => {
  const shown: readonly [name: string, value: number, text: string, comment?: string][] = [
    ['maxBytes', 64 * 1024, '64 KiB'],
    ['maxObjectBytes', 1.5 * 2 ** 20, '1.5 MiB'],
    ['maxBytesOfAll', 2 ** 31, '2 GiB'],
    ['maxLineBytes', 65_520, '65,520 bytes'],
    ['limits.bytesPerSecond', 16 * 1024, '16 KiB/s'],
    ['limits.minRate', 4096, '4 KiB/s', 'bytes per second of a body'],
    ['maxWaitMs', 90_000, '1.5 min'],
    ['maxAgeMs', 86_400_000, '24 h'],
    ['maxRestMs', 250, '250 ms'],
    ['maxIdleSeconds', 86_400, '24 h'],
    ['maxHeapMb', 4096, '4,096 MB'],
    ['maxDepth', 64, '64 levels'],
    ['maxNameLength', 253, '253 characters'],
    ['maxText', 512, '512 characters', 'limit of the characters of a text'],
    ['maxText', 512, '512 characters', 'Limit of a text. Characters'],
    ['rate.max', 100, '100 ms', 'Pauses before a repeat, in ms (RFC 1).'],
    ['maxTokens', 500, '500', 'tokens of one message: each has some 400 bytes'],
    ['maxShare', 0.1, '0.1'],
  ]
  for (const [name, value, text, comment] of shown) t.equal(valueText(bound(name, value, comment)), text, name)
  t.equal(unitOf(bound('maxTokens', 1, 'tokens, 4 bytes each')), undefined)
})

t.test('a cell has the sentences that fit, and the first one in any case', async (t) => {
  const long = `Now ${'word '.repeat(25)}end.`
  t.equal(commentText({ comment: `One.\nTwo (a.md no. 3). ${long} Four.\n\nFive.` }), `One. Two (a.md no. 3). ${long}`)
  t.equal(commentText({ comment: `${long} ${long}` }), long)
  t.equal(commentText({ comment: 'Reads a `max. X`.\n@see b' }), 'Reads a `max. X`.')
  t.equal(commentText({ comment: 'Age of a file. ms' }), 'Age of a file.')
})

t.test('what a bound lacks is found', async (t) => {
  const faults = (...of: Parameters<typeof bound>) => boundFaults(bound(...of)).map((fault) => fault.split(' ')[0])
  t.strictSame(faults('maxRows', 1), ['no'])
  t.strictSame(faults('maxRow', 1, 'Bound of this.'), ['neither'])
  t.strictSame(faults('maxKept', 1, 'Bound of rows.'), [])
  t.strictSame(faults('maxKept', 1, `Bound of rows ${'and so on '.repeat(20)}.`), ['the'])
})
