import { execFileSync, spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { chmodSync, lstatSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { boundedRun } from '../../dev/images/bounded-run.ts'
import { isElf, neededBy, withoutSymbols } from '../../dev/images/elf.ts'
import { goProgramFile } from '../../dev/images/go-program.ts'
import { Layer } from '../../dev/images/layer.ts'
import { writeLayout } from '../../dev/images/oci-layout.ts'

/** Inputs of the images. test/e2e/images makes and runs them. */

async function emptyFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kas-images-test-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const long = `usr/${'a-folder/'.repeat(12)}file`

t.test('a layer is what tar reads', async (t) => {
  const folder = await emptyFolder(t)
  const layer = new Layer()
  layer.file('usr/bin/program', '#!/bin/sh\n', 0o755)
  layer.file(long, 'far below')
  layer.file('empty', '')
  layer.link('usr/bin/other', 'program')
  layer.folder('tmp', 0o1777)
  writeFileSync(join(folder, 'layer.tar'), layer.tar())
  execFileSync('tar', ['-xpf', 'layer.tar'], { cwd: folder })
  t.equal(readFileSync(join(folder, long), 'utf8'), 'far below')
  t.equal(readFileSync(join(folder, 'empty'), 'utf8'), '')
  t.equal(readlinkSync(join(folder, 'usr/bin/other')), 'program')
  const modes = ['usr/bin/program', long, 'usr/bin', 'tmp'].map((path) => lstatSync(join(folder, path)).mode & 0o7777)
  t.strictSame(modes, [0o755, 0o644, 0o755, 0o1777])
  const env = { ...process.env, TZ: 'UTC' }
  const listed = execFileSync('tar', ['--numeric-owner', '-tvf', 'layer.tar'], { cwd: folder, encoding: 'utf8', env })
  for (const line of listed.trim().split('\n')) t.match(line, / 0\/0 +\d+ 1970-01-01 /)
})

t.test('equal entries are equal bytes, and a path that no tar holds is named', async (t) => {
  const made = (paths: string[]) => {
    const layer = new Layer()
    for (const path of paths) layer.file(path, path)
    return layer.tar()
  }
  t.ok(made(['b', 'a/c', 'a/b']).equals(made(['a/b', 'b', 'a/c'])))
  t.throws(() => made(['x'.repeat(101)]), /^x+ is too long for a layer/)
})

t.test('what one Go has made is not taken for that of another', async (t) => {
  const folder = await emptyFolder(t)
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = `${folder}${delimiter}${PATH}`
  const fileOf = (compiler: string) => {
    writeFileSync(join(folder, 'go'), `#!/bin/sh\n[ "$*" = 'env GOVERSION' ] && echo ${compiler}\n`, { mode: 0o755 })
    return goProgramFile({ name: 'helm', path: 'helm.sh/helm/v3/cmd/helm', version: 'v3.0.0' }, 'amd64', '/cache')
  }
  t.equal(await fileOf('go1.26.8'), '/cache/go/go1.26.8/amd64/helm-v3.0.0')
  t.equal(await fileOf('go1.26.9'), '/cache/go/go1.26.9/amd64/helm-v3.0.0')
})

t.test('what takes too long is ended, and says so; what fails has its own words', async (t) => {
  const boundMs = 50
  const hanging = boundedRun('sh', ['-c', 'echo asking >&2; exec sleep 60'], { timeoutMs: boundMs })
  await t.rejects(hanging, { message: /^sh -c .* took over 0\.05 s: where it fetches from may not answer\./ })
  const failing = boundedRun('sh', ['-c', 'echo no such module >&2; exit 1'], { timeoutMs: 60_000 })
  await t.rejects(failing, { message: /^Command failed[\s\S]*no such module/ })
})

const program = readFileSync(process.execPath)
const withoutElf = isElf(program) ? false : 'needs programs in ELF'

t.test('a program without symbols runs, and is linked with the same', { skip: withoutElf }, async (t) => {
  const stripped = withoutSymbols(program)
  t.ok(stripped.length < program.length - 1e6, `${program.length} to ${stripped.length} bytes`)
  t.ok(withoutSymbols(stripped).equals(stripped), 'nothing more to leave out')
  t.strictSame(neededBy(stripped), neededBy(program))
  t.ok(neededBy(program).some((name) => /^libc\.so/.test(name)))
  const file = join(await emptyFolder(t), 'node')
  writeFileSync(file, stripped)
  chmodSync(file, 0o755)
  const script = 'console.log(require("node:crypto").hash("sha256", "x"), process.version)'
  const { stdout, stderr } = spawnSync(file, ['-e', script], { encoding: 'utf8' })
  t.equal(stdout, `${hash('sha256', 'x')} ${process.version}\n`, stderr)
})

t.test('a layout names each blob by its digest', async (t) => {
  const folder = await emptyFolder(t)
  const layer = new Layer()
  layer.file('a', 'b')
  const tar = layer.tar()
  const one = { gzip: gzipSync(tar), digest: hash('sha256', tar), about: 'a file' }
  const images = (['amd64', 'arm64'] as const).map((architecture) => ({
    architecture,
    layers: [one],
    config: { User: '1' },
  }))
  const { digest, compressedBytes } = await writeLayout(folder, 'kas:1.0.0', images)
  t.strictSame(
    [...compressedBytes],
    [
      ['amd64', one.gzip.length],
      ['arm64', one.gzip.length],
    ],
  )
  const blob = (digest: string) => readFileSync(join(folder, 'blobs', digest.replace(':', '/')))
  const parsed = (digest: string) => JSON.parse(blob(digest).toString())
  const [entry] = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')).manifests
  t.match(entry, { digest, annotations: { 'org.opencontainers.image.ref.name': '1.0.0' } })
  const seen = parsed(digest).manifests.map(({ digest, platform }: { digest: string; platform: object }) => {
    const { config, layers } = parsed(digest)
    for (const { digest, size } of [config, ...layers, entry]) {
      t.equal(`sha256:${hash('sha256', blob(digest))}`, digest)
      t.equal(statSync(join(folder, 'blobs', digest.replace(':', '/'))).size, size)
    }
    t.strictSame(parsed(config.digest).rootfs.diff_ids, [
      `sha256:${hash('sha256', gunzipSync(blob(layers[0].digest)))}`,
    ])
    return platform
  })
  t.strictSame(seen, [
    { architecture: 'amd64', os: 'linux' },
    { architecture: 'arm64', os: 'linux' },
  ])
})
