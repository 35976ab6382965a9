import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { readPaths } from '../../../../../src/kas/modules/gitops/chosen-files.ts'
import { commitFiles } from '../../../../../src/kas/modules/gitops/commit-files.ts'
import { previewFiles } from '../../../../../src/kas/modules/gitops/preview-files.ts'
import type { CommitId, Reading } from '../../../../../src/kas/repositories/repositories.ts'
import { noMeter } from '../../../../../src/lib/byte-budget.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { PathCFSchema } from '../../../../../src/proto/gen/gitops_pb.ts'
import { maxFileBytes, maxFiles } from '../../../../../src/proto/gitops/limits.ts'
import { inPieces, type TarEntry, tarOf } from '../../../../support/tar.ts'

const options = { maxFiles: 20, maxFileBytes: 1000, maxTotalBytes: 5000 }

const choiceOf = (...paths: readonly string[]) =>
  readPaths(
    paths.map((path) => {
      const isGlob = /[*{]/.test(path)
      return create(PathCFSchema, { path: { case: isGlob ? 'glob' : 'file', value: path } })
    }),
  )

async function chosen(entries: readonly TarEntry[], paths: readonly string[]) {
  const files = await previewFiles(
    { body: inPieces(tarOf(entries), 1000), memory: noMeter },
    choiceOf(...paths),
    options,
  )
  return files.map(({ path, data }) => `${path}=${Buffer.from(data)}`)
}

/** Chooses files of a commit with the same content. */
async function chosenOfCommit(entries: readonly TarEntry[], paths: readonly string[]) {
  const all = entries.map(({ name, type, linkname }) => ({ path: name.replace(/^\.\//, ''), type, linkname }))
  const tree = Object.assign(
    all.filter(({ type }) => type !== '2').map(({ path }) => ({ path, blob: path })),
    { links: all.filter(({ type }) => type === '2').map(({ path }) => ({ path, blob: path, isSubmodule: false })) },
  )
  const { files } = await commitFiles({
    repositories: {
      files: async (_, __, folder) => {
        const isBelow = ({ path }: { path: string }) => folder === '' || path.startsWith(`${folder}/`)
        return Object.assign(tree.filter(isBelow), { links: tree.links.filter(isBelow) })
      },
      blobs: async (_, __, links) =>
        links.map(({ path }) => Buffer.from(all.find((one) => one.path === path)?.linkname ?? '')),
    },
    reading: {} as Reading,
    commit: 'c0' as CommitId,
    choice: choiceOf(...paths),
    maxFiles: options.maxFiles,
    pay: () => undefined,
    signal: new AbortController().signal,
  })
  return files.map(
    ({ path, file }) => `${path}=${entries.find(({ name }) => name.replace(/^\.\//, '') === file.path)?.data}`,
  )
}

const entries: readonly TarEntry[] = [
  { name: './deploy/web.yaml', data: 'web' },
  { name: './deploy/db/db.yml', data: 'db' },
  { name: 'deploy/README.md', data: 'readme' },
  { name: '.github/x.yaml', data: 'hidden folder' },
  { name: '.root.yaml', data: 'hidden name in the root' },
  { name: 'apps/a.json', data: 'a' },
  { name: 'apps/b.yaml', data: 'b' },
  { name: 'apps/link.yaml', type: '2', linkname: '../deploy/web.yaml' },
  { name: 'apps/out.yaml', type: '2', linkname: '/etc/passwd' },
  { name: 'apps/up.yaml', type: '2', linkname: '../../up.yaml' },
  { name: 'apps/none.yaml', type: '2', linkname: 'nothing.yaml' },
  { name: 'apps/folder.yaml', type: '2', linkname: '../deploy' },
]

t.test('the choice is that of a commit, in its order', async (t) => {
  for (const paths of [
    ['**/*.{yaml,yml,json}'],
    ['apps/*.yaml', 'deploy/**/*.y*ml'],
    ['deploy/**/*', 'apps/b.yaml'],
    ['apps/b.yaml', 'deploy/web.yaml'],
    ['nowhere/*.yaml'],
    ['/apps/*.json'],
  ]) {
    const found = await chosen(entries, paths).catch((error: unknown) => KasError.from(error).message)
    const expected = await chosenOfCommit(entries, paths).catch((error: unknown) => KasError.from(error).message)
    if (!String(expected).includes('visited')) t.strictSame(found, expected, paths.join(' '))
    else t.equal(found, expected)
  }
  t.strictSame(await chosen(entries, ['deploy/*.yaml']), ['deploy/web.yaml=web'])
})

t.test('a missing file, and one that two globs match, are refused as of a commit', async (t) => {
  for (const paths of [['apps/*.yaml', 'apps/b.*'], ['apps/missing.yaml']]) {
    const refusal = (choose: typeof chosen) =>
      choose(entries, paths).then(
        () => 'it was chosen',
        (error: unknown) => KasError.from(error).message,
      )
    const expected = await refusal(chosenOfCommit)
    t.match(expected, /^GitOps: failed to get objects/)
    t.equal(await refusal(chosen), expected)
  }
})

t.test('a link to a file that paths do not choose is refused, because its content was not kept', async (t) => {
  await t.rejects(chosen(entries, ['apps/link.yaml', 'apps/*.{json,yaml}']), {
    code: 'MANIFESTS_REFUSED',
    message: /apps\/link\.yaml leads to deploy\/web\.yaml, which paths do not choose: pack with tar --dereference/,
  })
})

t.test('a link before its file may lead to one that paths do not choose', async (t) => {
  const paths = ['apps/*.yaml']
  const links = entries.filter(({ type }) => type === '2')
  const ordered = [...links, ...entries.filter(({ type }) => type !== '2')]
  const found = await chosen(ordered, paths)
  t.strictSame(found, await chosenOfCommit(ordered, paths))
  t.ok(found.includes('apps/link.yaml=web'))
})

t.test('agentk’s own bounds hold, whatever those of kas are', async (t) => {
  const large = { maxFiles: 50_000, maxFileBytes: 2 ** 30, maxTotalBytes: 2 ** 30 }
  const refusal = (all: readonly TarEntry[]) =>
    previewFiles({ body: inPieces(tarOf(all), 64 * 1024), memory: noMeter }, choiceOf('*.yaml'), large).then(
      () => 'they were chosen',
      (error: unknown) => `${KasError.from(error).httpStatus} ${KasError.from(error).message}`,
    )
  const files = (count: number, data: string) => Array.from({ length: count }, (_, i) => ({ name: `${i}.yaml`, data }))
  t.match(await refusal(files(maxFiles + 1, 'x')), /^422 .*more than 1000 files/)
  t.match(await refusal(files(1, 'x'.repeat(maxFileBytes + 1))), /^422 .*"0\.yaml": .*allowed: 5242880/)
  t.match(await refusal(files(5, 'x'.repeat(maxFileBytes))), /^422 .*"4\.yaml": .*more than 20971520 bytes/)
})

t.test('links count as files', async (t) => {
  const many = Array.from({ length: 15 }, (_, i): TarEntry[] => [
    { name: `${i}.yaml`, data: 'x' },
    { name: `l${i}.yaml`, type: '2', linkname: `${i}.yaml` },
  ]).flat()
  await t.rejects(chosen(many, ['*.yaml']), { code: 'MANIFESTS_REFUSED', message: /limit reached: 20/ })
  const large: TarEntry[] = [1, 2, 3, 4].flatMap((i) => [
    { name: `${i}.yaml`, data: 'x'.repeat(1000) },
    { name: `l${i}.yaml`, type: '2', linkname: `${i}.yaml` },
  ])
  await t.rejects(chosen(large, ['*.yaml']), { code: 'MANIFESTS_REFUSED', message: /more than 5000 bytes/ })
})
