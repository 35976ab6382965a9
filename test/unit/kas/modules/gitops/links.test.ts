import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { followLinks } from '../../../../../src/kas/modules/gitops/links.ts'
import type { TreeFile, TreeFiles } from '../../../../../src/kas/repositories/tree.ts'
import { collectAll } from '../../../../../src/lib/v8.ts'

/** A commit: its files, and its links with their targets. */
const files = ['manifests/a.yaml', 'common/cm.yaml', 'common/deep/x.yaml', 'root.yaml']
const links: Readonly<Record<string, string>> = {
  'manifests/near.yaml': 'a.yaml',
  'manifests/far.yaml': '../common/cm.yaml',
  'manifests/root.yaml': '../root.yaml',
  'manifests/chain.yaml': '../common/link.yaml',
  'manifests/folder.yaml': '../common/deep',
  'manifests/outside.yaml': '../../etc/passwd',
  'manifests/absolute.yaml': '/etc/passwd',
  'manifests/none.yaml': '../common/none.yaml',
  'manifests/loop.yaml': 'loop.yaml',
  'manifests/control.yaml': '../x\u001b[2J',
  'common/link.yaml': 'cm.yaml',
}

function treeOf(folder: string): TreeFiles {
  const isBelow = (path: string) => folder === '' || path.startsWith(`${folder}/`)
  const own = Object.keys(links).filter(isBelow)
  return Object.assign(
    files.filter(isBelow).map((path) => ({ path, blob: path })),
    { links: own.map((path) => ({ path, blob: path, isSubmodule: false })) },
  )
}

async function follow(paths: readonly string[], { submodules = [] as string[], folder = 'manifests' } = {}) {
  const listed: string[] = []
  const all = [
    ...paths.map((path) => ({ path, blob: path, isSubmodule: false })),
    ...submodules.map((path) => ({ path, blob: path, isSubmodule: true })),
  ]
  const found = await followLinks(all, {
    tree: treeOf(folder),
    folder,
    read: async (some: readonly TreeFile[]) => some.map(({ path }) => Buffer.from(links[path] ?? '')),
    list: async (of) => {
      listed.push(of)
      return treeOf(of)
    },
  })
  return { ...found, read: found.files.map(({ path, file }) => [path, file.path]), listed }
}

t.test('links within the commit are read, in whatever folder they end', async (t) => {
  const paths = ['near', 'far', 'root', 'chain'].map((name) => `manifests/${name}.yaml`)
  const { read, leftOut, listed } = await follow(paths)
  t.strictSame(
    new Map(read as [string, string][]),
    new Map([
      ['manifests/near.yaml', 'manifests/a.yaml'],
      ['manifests/far.yaml', 'common/cm.yaml'],
      ['manifests/root.yaml', 'root.yaml'],
      ['manifests/chain.yaml', 'common/cm.yaml'],
    ]),
  )
  t.strictSame(leftOut, [])
  t.strictSame(listed, ['common', '', 'common'], 'each folder once for all links, again for links that lead to links')
})

t.test('of the folders where links lead one listing at a time is held', async (t) => {
  const listings: WeakRef<TreeFiles>[] = []
  const held: number[] = []
  const all = Array.from({ length: 10 }, (_, i) => ({ path: `manifests/${i}`, blob: `${i}`, isSubmodule: false }))
  const found = await followLinks(all, {
    tree: [],
    folder: 'manifests',
    read: async (some) => some.map(({ blob }) => Buffer.from(`../shared-${blob}/file`)),
    list: async (of) => {
      await setImmediate()
      collectAll()
      held.push(listings.filter((each) => each.deref()).length)
      const listing = [{ path: `${of}/file`, blob: of }]
      listings.push(new WeakRef(listing))
      return listing
    },
  })
  t.equal(found.files.length, 10)
  t.ok(Math.max(...held) <= 1, `held: ${held}`)
})

t.test('others are left out, each with the reason', async (t) => {
  const cases: Readonly<Record<string, RegExp>> = {
    folder: /^manifests\/folder\.yaml is a link to the folder \.\.\/common\/deep: choose its files by paths$/,
    outside: /^manifests\/outside\.yaml is a link to \.\.\/\.\.\/etc\/passwd, which is outside of the repository$/,
    absolute: /outside of the repository$/,
    none: /^manifests\/none\.yaml is a link to \.\.\/common\/none\.yaml, where the commit has no file$/,
    loop: /^manifests\/loop\.yaml leads through more than 5 links$/,
    control: /^manifests\/control\.yaml is a link to \.\.\/x\?\[2J, where/,
  }
  for (const [name, reason] of Object.entries(cases)) {
    const { read, leftOut } = await follow([`manifests/${name}.yaml`])
    t.strictSame(read, [])
    t.equal(leftOut.length, 1)
    t.match(leftOut[0], reason, name)
  }
  t.match((await follow([], { submodules: ['manifests/sub'] })).leftOut, [/^manifests\/sub is a submodule/])
})

t.test('within bounds', async (t) => {
  const many = Array.from({ length: 60 }, () => 'manifests/near.yaml')
  const { read, leftOut } = await follow(many)
  t.equal(read.length, 50)
  t.equal(leftOut.length, 10)
  const all = Array.from({ length: 40 }, () => 'manifests/none.yaml')
  const named = (await follow(all)).leftOut
  t.strictSame([named.length, named.at(-1)], [21, 'and 20 more links and submodules'])
})
