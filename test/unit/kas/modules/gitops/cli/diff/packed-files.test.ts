import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { mkdir, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import t, { type Test } from 'tap'
import { extract } from 'tar-stream'
import { packedFiles } from '../../../../../../../src/kas/modules/gitops/cli/diff/packed-files.ts'
import { topFolder } from '../../../../../../../src/kas/modules/gitops/cli/diff/repository.ts'
import { readWorkTree, workTreeTexts } from '../../../../../../../src/kas/modules/gitops/cli/diff/work-tree.ts'
import { GitWorkTree } from '../../../../../../support/work-tree.ts'

/** Files of a change as `kas diff` sends them. */

async function unpacked(tar: Readable): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  const reader = extract()
  reader.on('entry', ({ name, type, linkname }, content, next) => {
    buffer(content).then((bytes) => {
      found[name] = type === 'file' ? bytes.toString('utf8') : `${type}: ${linkname}`
      next()
    }, next)
  })
  await pipeline(tar, reader as unknown as NodeJS.WritableStream)
  return found
}

const packed = async (folder: string) => unpacked(packedFiles(await readWorkTree(folder, process.env)))

const refused = async (t: Test, folder: string, message: RegExp) => {
  const read = topFolder(folder, process.env).then((top) => readWorkTree(top, process.env))
  await t.rejects(read, { name: 'UsageError', message })
}

t.test('what Git tracks is packed as it is in the work tree', async (t) => {
  const long = `${'folder/'.repeat(40)}${'n'.repeat(200)}.yaml`
  const files = { 'a.yaml': 'a: 1\n', empty: '', 'käse/ü.yaml': 'ü', [long]: 'long' }
  const tree = await GitWorkTree.create(t, {
    ...files,
    'edited.yaml': 'old',
    '.gitattributes': 'a.yaml export-ignore\n',
  })
  await tree.write({ 'edited.yaml': 'new', 'untracked.yaml': 'no' })
  await symlink('edited.yaml', join(tree.path, 'link'))
  await symlink(`../${'ü'.repeat(120)}`, join(tree.path, 'long-link'))
  await tree.git('add', 'link', 'long-link')
  const links = { link: 'symlink: edited.yaml', 'long-link': `symlink: ../${'ü'.repeat(120)}` }
  const large = 'x'.repeat(1_000_001)
  await tree.write({ large })
  await tree.git('add', 'large')
  await mkdir(join(tree.path, 'inner'))
  const top = await topFolder(join(tree.path, 'inner'), process.env)
  const found = await packed(top)
  t.strictSame(found, { ...files, ...links, large, 'edited.yaml': 'new', '.gitattributes': 'a.yaml export-ignore\n' })
  t.strictSame(workTreeTexts(await readWorkTree(top, process.env)), [
    '4 files have changes that are not committed: the preview includes them',
    '1 file is not tracked by Git: the preview leaves it out until git add',
  ])
})

t.test('GNU tar reads it too', async (t) => {
  const tree = await GitWorkTree.create(t, { 'a/käse.yaml': 'a', [`${'n'.repeat(150)}.yaml`]: 'b' })
  const tar = await buffer(packedFiles(await readWorkTree(tree.path, process.env)))
  const env = { ...process.env, LC_ALL: 'C.UTF-8' }
  const listed = execFileSync('tar', ['--list', '--quoting-style=literal'], { input: tar, env }).toString().split('\n')
  t.strictSame(listed.filter(Boolean).sort(), ['a/käse.yaml', `${'n'.repeat(150)}.yaml`])
})

t.test('bad input: file names with line breaks and backticks', async (t) => {
  const tree = await GitWorkTree.create(t, { 'a`b```.yaml': 'a', '-T': 'b', '@all': 'c' })
  t.strictSame(await packed(tree.path), { 'a`b```.yaml': 'a', '-T': 'b', '@all': 'c' })
  await tree.commit({ 'two\nlines.yaml': 'a' })
  await refused(t, tree.path, /^"two\\nlines\.yaml": the name of a file has a line break or a control character$/)
  await tree.git('rm', '--quiet', '--force', 'two\nlines.yaml')
  await tree.commit({ 'esc\u001b[31m.yaml': 'a' })
  await refused(t, tree.path, /^"esc\\u001b\[31m\.yaml": the name of a file has a line break or a control character$/)
})

t.test('a name that is no UTF-8 is refused by name', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a' })
  await writeFile(Buffer.concat([Buffer.from(`${tree.path}/bad-`), Buffer.from([0xff])]), '')
  await tree.git('add', '--all')
  await refused(t, tree.path, /^"bad-\ufffd": the name of a file is no UTF-8$/)
})

t.test('bad input: a folder that is no repository, and one in which nothing is tracked', async (t) => {
  const tree = await GitWorkTree.create(t)
  await rm(join(tree.path, '.git'), { recursive: true })
  await refused(t, tree.path, /is in no work tree of Git: not a git repository/)
  await refused(t, join(tree.path, 'none'), /is in no work tree of Git: cannot change to /)
  await tree.git('init', '--quiet', '--bare', 'bare.git')
  await refused(t, join(tree.path, 'bare.git'), /is in no work tree of Git: this operation must be run in a work tree/)
  await tree.git('init', '--quiet')
  await refused(t, tree.path, /Git tracks no file\. git add names the files of a change$/)
})

t.test('a repository of another user is refused, with the setting of git that allows it', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a' })
  const env = { ...process.env, GIT_TEST_ASSUME_DIFFERENT_OWNER: '1' }
  await t.rejects(topFolder(tree.path, env), {
    name: 'UsageError',
    message: /^detected dubious ownership in repository at .*: git config --global --add safe\.directory \//,
  })
})

t.test('bad input: a tracked file that is gone from the work tree counts as deleted, and is named', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a', b: 'b', 'folder/c': 'c', d: 'd', 'linked/e': 'e' })
  await rm(join(tree.path, 'b'))
  await rm(join(tree.path, 'folder'), { recursive: true })
  await rm(join(tree.path, 'd'))
  await mkdir(join(tree.path, 'd'))
  await rm(join(tree.path, 'linked'), { recursive: true })
  await symlink('/etc', join(tree.path, 'linked'))
  const read = await readWorkTree(tree.path, process.env)
  t.strictSame(read.files, ['a'])
  t.match(
    workTreeTexts(read)[1],
    '4 files are missing from the work tree and count as deleted: "b", "d", "folder/c" and 1 more',
  )
  t.strictSame(await packed(tree.path), { a: 'a' })
})

t.test('a sparse checkout is refused: its files would look deleted', async (t) => {
  const tree = await GitWorkTree.create(t, { 'a/a': 'a', 'b/b': 'b' })
  await tree.git('sparse-checkout', 'set', '--cone', 'a')
  await refused(t, tree.path, /^"b\/b" is not in the work tree: the checkout is sparse/)
})

t.test('submodules are left out, and a conflict is one file', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a' })
  const head = await tree.git('rev-parse', 'HEAD')
  await tree.git('update-index', '--add', '--cacheinfo', `160000,${head},module`)
  await mkdir(join(tree.path, 'module'))
  await tree.commit({ a: 'a' })
  await tree.git('checkout', '--quiet', '-b', 'other')
  await tree.commit({ a: 'other' })
  await tree.git('checkout', '--quiet', 'main')
  await tree.commit({ a: 'main' })
  await t.rejects(tree.git('merge', 'other'))
  t.match(await packed(tree.path), { a: /<<<<<<</ })
})

t.test('a file that becomes shorter while it is read ends the stream with an error', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'x'.repeat(3_000_000) })
  const tar = packedFiles(await readWorkTree(tree.path, process.env))
  const iterator = tar[Symbol.asyncIterator]()
  await iterator.next() // the header has been sent, and with it the size
  await truncate(join(tree.path, 'a'), 10)
  const rest = async () => {
    while (!(await iterator.next()).done);
  }
  await t.rejects(rest(), { message: '"a" has changed while it was read: try again' })
  await rm(join(tree.path, 'a'))
  await t.rejects(buffer(packedFiles({ top: tree.path, files: ['a'], links: [] })), { code: 'ENOENT' })
})

t.test('a reader that leaves ends the packing', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'x'.repeat(3_000_000), b: 'b' })
  const tar = packedFiles(await readWorkTree(tree.path, process.env))
  for await (const _ of tar) break
  t.ok(tar.destroyed)
})

t.test('bad input: a repository with 100,000 files', { timeout: 300_000 }, async (t) => {
  const count = 100_000
  const tree = await GitWorkTree.create(t, { first: '' })
  const blob = await tree.git('rev-parse', 'HEAD:first')
  const names: string[] = []
  for (let i = 0; i < count; i++) {
    if (i % 1000 === 0) mkdirSync(join(tree.path, `d${i / 1000}`))
    names.push(`d${Math.floor(i / 1000)}/f${i}.yaml`)
  }
  for (const name of names) writeFileSync(join(tree.path, name), '')
  const index = names.map((name) => `100644 ${blob}\t${name}\n`).join('')
  execFileSync('git', ['update-index', '--index-info'], { cwd: tree.path, input: index })
  const before = process.memoryUsage.rss()
  let bytes = 0
  const read = await readWorkTree(tree.path, process.env)
  t.equal(read.files.length, count + 1)
  for await (const chunk of packedFiles(read)) bytes += (chunk as Buffer).length
  t.equal(bytes, (count + 1) * 512 + 1024)
  t.ok(process.memoryUsage.rss() - before < 300 * 1024 * 1024, 'the memory does not hold the tar')
})
