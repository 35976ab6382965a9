import { create, type MessageInitShape } from '@bufbuild/protobuf'
import t from 'tap'
import { checkPathCount, chosenFiles, readPaths } from '../../../../../src/kas/modules/gitops/chosen-files.ts'
import type { KasError } from '../../../../../src/lib/errors.ts'
import { PathCFSchema } from '../../../../../src/proto/gen/gitops_pb.ts'

type PathInit = NonNullable<MessageInitShape<typeof PathCFSchema>['path']>
const glob = (value: string): PathInit => ({ case: 'glob', value })
const file = (value: string): PathInit => ({ case: 'file', value })
const choice = (paths: readonly PathInit[]) => readPaths(paths.map((path) => create(PathCFSchema, { path })))
const treeOf = (...paths: string[]) => paths.map((path) => ({ path, blob: path }))
const chosen = async (paths: readonly PathInit[], tree: readonly string[], maxFiles = 1000) => {
  try {
    const files = await chosenFiles(choice(paths), treeOf(...tree), maxFiles)
    return files.map(({ path }) => path)
  } catch (error) {
    return (error as KasError).message.replace('GitOps: failed to get objects to synchronize: manifest file: ', '')
  }
}

const tree = ['.gitlab-ci.yml', '.gitlab/agents/x.yaml', 'a/.h/x.yaml', 'a/.x.yaml', 'a/x.yaml', 'b/x.yaml', 'c.md']

t.test('globs in their order, then files; no folders that begin with a dot', async (t) => {
  t.strictSame(await chosen([glob('**/*.{yaml,yml}')], tree), ['.gitlab-ci.yml', 'a/.x.yaml', 'a/x.yaml', 'b/x.yaml'])
  t.strictSame(await chosen([glob('b/*'), file('a/x.yaml'), glob('*.md')], tree), ['b/x.yaml', 'c.md', 'a/x.yaml'])
  t.strictSame(await chosen([file('a/x.yaml'), file('a/x.yaml'), glob('a/*')], tree), ['a/.x.yaml', 'a/x.yaml'])
  t.strictSame(await chosen([file('.gitlab/agents/x.yaml')], tree), [], 'hidden, and not missing')
  t.strictSame(await chosen([glob('none/**')], tree), [])
})

t.test('a file matched twice, a file that is not there, too many', async (t) => {
  t.equal(await chosen([glob('a/*'), glob('**/x.yaml')], tree), 'path visited more than once: a/x.yaml')
  t.equal(await chosen([file('a/none.yaml')], tree), 'file/directory/ref not found: a/none.yaml')
  t.equal(await chosen([glob('**')], tree, 3), 'maximum number of files limit reached: 3')
  t.equal(((await chosen([glob('a/*'), file('c.md')], tree, 3)) as string[]).length, 3)
  t.equal(await chosen([glob('a/*'), file('c.md')], tree, 2), 'maximum number of files limit reached: 2')
})

t.test('a chosen path that no terminal shows, or no line holds; others are left alone', async (t) => {
  const text = 'the path has a control character, or is not UTF-8: rename the file, or choose other paths'
  for (const [path, shown] of [
    ['a/\u001b[2Jx.yaml', 'a/?[2Jx.yaml'],
    ['a/b\nc.yaml', 'a/b?c.yaml'],
    ['a/\u009bx.yaml', 'a/?x.yaml'],
    ['a/\u202ex.yaml', 'a/?x.yaml'],
    ['a/\ufffd.yaml', 'a/\ufffd.yaml'],
  ] as const) {
    t.equal(await chosen([glob('a/*.yaml')], [...tree, path]), `${shown}: ${text}`)
    t.equal(await chosen([file(path)], [...tree, path]), `${shown}: ${text}`)
    t.strictSame(await chosen([glob('b/*')], [...tree, path]), ['b/x.yaml'])
  }
  t.strictSame(await chosen([glob('*')], ['größe 1.yaml', '日本.yaml']), ['größe 1.yaml', '日本.yaml'])
})

t.test('one folder holds all that is asked for', async (t) => {
  t.equal(choice([glob('a/b/*'), glob('a/b/c/**')]).folder, 'a/b')
  t.equal(choice([glob('a/b/*'), file('a/c.yaml')]).folder, 'a')
  t.equal(choice([glob('ab/*'), glob('a/*')]).folder, '')
  t.equal(choice([glob('a/*'), glob('**')]).folder, '')
  t.equal(choice([file('c.yaml')]).folder, '')
})

t.test('paths that are refused', async (t) => {
  const refusal = (paths: readonly PathInit[], maxPaths = 100) => {
    try {
      checkPathCount(paths.length, maxPaths)
      choice(paths)
      return 'taken'
    } catch (error) {
      return `${(error as KasError).code}: ${(error as KasError).message}`
    }
  }
  t.equal(refusal([]), 'INVALID_MESSAGE: paths are required')
  t.equal(refusal([{ case: undefined }]), 'INVALID_MESSAGE: a path is empty')
  t.equal(refusal([glob('')]), 'INVALID_MESSAGE: a path is empty')
  t.equal(
    refusal([glob('a'), glob('b'), glob('c')], 2),
    'INVALID_MESSAGE: maximum number of GitOps paths per manifest project is 2, but 3 was requested',
  )
  t.match(refusal(Array(4).fill(glob('{a,b}'.repeat(6)))), /more than 200 alternatives in all globs/)
})

t.test('a listing is gone through once, and no further than to one file too many', async (t) => {
  let made = 0
  const listing = (count: number) => ({
    length: count,
    *[Symbol.iterator]() {
      for (let i = 0; i < count; i++) {
        made += 1
        yield { path: `${i % 100}/${i}.yaml`, blob: String(i) }
      }
    },
  })
  const folders = Array.from({ length: 100 }, (_, i) => glob(`${i}/*`))
  await t.rejects(chosenFiles(choice(folders), listing(45_000), 1000), {
    message: /maximum number of files limit reached: 1000$/,
  })
  t.ok(made <= 1002, `${made} files`)
  made = 0
  const mixed = choice([file('9/9.yaml'), glob('7/4[0-2]07.yaml'), file('0/0.yaml')])
  const files = await chosenFiles(mixed, listing(5000), 1000)
  t.strictSame(
    files.map(({ path }) => path),
    ['7/4007.yaml', '7/4107.yaml', '7/4207.yaml', '9/9.yaml', '0/0.yaml'],
  )
  t.equal(made, 5000)
})

t.test('others are served while single files are searched', async (t) => {
  const paid: number[] = []
  const tree = treeOf(...Array.from({ length: 45_000 }, (_, i) => `${i}.yaml`))
  const files = await chosenFiles(choice([file('44999.yaml')]), tree, 10, (units) => void paid.push(units))
  t.strictSame(files, tree.slice(-1))
  t.ok(paid.length > 5, `${paid.length} times`)
})

t.test('others are served while many files are compared', async (t) => {
  const many = Array.from({ length: 20_000 }, (_, i) => `${i}.yaml`)
  let turns = 0
  const counting = setInterval(() => turns++)
  const choosing = chosenFiles(choice([glob('*7.yam?')]), treeOf(...many), 10_000)
  const immediate = new Promise<number>((resolve) => setImmediate(() => resolve(turns)))
  await immediate
  let isDone = false
  void choosing.then(() => {
    isDone = true
  })
  await new Promise(setImmediate)
  t.notOk(isDone)
  t.equal((await choosing).length, 2000)
  clearInterval(counting)
})

t.test('globs that take long to compare are given up, and others are served meanwhile', async (t) => {
  const slow = `**/*${'a'.repeat(40)}[b]`
  const many = Array.from({ length: 5000 }, (_, i) => `${i}${'a'.repeat(4000)}`)
  let turns = 0
  let isDone = false
  const count = () => {
    turns += 1
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  t.equal(await chosen([glob(slow)], many), 'the globs take too long to compare with all files')
  isDone = true
  t.ok(turns > 50, `${turns} turns`)
})

t.test('who asks pays for what is compared, as it goes on; what is not paid for is not done', async (t) => {
  const many = Array.from({ length: 20_000 }, (_, i) => `${i}.yaml`)
  const paid: number[] = []
  const files = await chosenFiles(choice([glob('*7.yam?')]), treeOf(...many), 10_000, (units) => {
    paid.push(units)
    return undefined
  })
  t.equal(files.length, 2000)
  t.ok(paid.length > 5, `${paid.length} times`)
  t.ok(
    paid.every((units) => units < 11),
    'a slice at a time',
  )
  const cut = new Error('the call has ended')
  let times = 0
  const refuse = () => (++times > 2 ? Promise.reject(cut) : undefined)
  await t.rejects(chosenFiles(choice([glob('*7.yam?')]), treeOf(...many), 10_000, refuse), cut)
  t.equal(times, 3)
})

t.test('others are served while one path is compared with many globs', async (t) => {
  const globs = [
    glob(`{${'a,'.repeat(99)}b}${'*a'.repeat(300)}[b]`),
    glob(`{${'c,'.repeat(98)}d}${'*a'.repeat(300)}[b]`),
  ]
  const paid: number[] = []
  const spend = (units: number) => void paid.push(units)
  await chosenFiles(choice(globs), treeOf('a'.repeat(4000)), 10, spend)
  t.ok(paid.length > 5, `${paid.length} times`)
})
