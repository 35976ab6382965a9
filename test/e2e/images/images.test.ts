import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { type MadeImage, makeImages } from '../../../dev/images/images.ts'
import { sbomProblems } from '../../support/cyclonedx/sbom-problems.ts'
import { playCluster } from '../installed/cluster.ts'
import { MadeImages } from './made-images.ts'
import { architecture, places } from './unpacked-image.ts'
import { lacking } from './unpacked-runc.ts'

/** The images that are shipped are made twice, and run as a cluster runs them. */

const maxBytes: Readonly<Record<string, number>> = { kas: 61e6, agentk: 48e6 }
const maxUpdateBytes = 5e6
const users = { kas: '65532', agentk: '1000650000' }
const run = promisify(execFile)

const skip = (await lacking()) ?? false

t.test('images', { skip }, async (t) => {
  const images = await MadeImages.make(t, 'kas', 'agentk')
  const { folder, made: first } = images
  const programs = { kas: images.program('kas', users.kas), agentk: images.program('agentk', users.agentk) }

  await t.test('made again they have the same digests, and they are small', async (t) => {
    const steps: string[] = []
    const onStep = (text: string) => steps.push(text)
    const to = join(folder, 'again')
    const again = await makeImages({ to, names: ['kas'], architectures: [architecture], onStep }) // agentk's are the same layers, but for the program
    t.match(
      steps,
      [/^bundling/, /^fetching Debian's packages and Node/, /^laying out kas/, /^compressing kas/, /^writing kas/],
      'it says what it does',
    )
    const digests = (made: readonly MadeImage[]) => made.map(({ name, digest }) => [name, digest])
    t.strictSame(digests(again), digests(first.slice(0, 1)))
    for (const { name, folder, compressedBytes } of first) {
      const bytes = compressedBytes.get(architecture) ?? Infinity
      t.ok(bytes <= (maxBytes[name.split(':')[0] ?? ''] ?? 0), `${name}: ${bytes} bytes`)
      const sizes = manifestOf(folder).layers.map(({ size }) => size)
      t.ok((sizes.at(-1) ?? Infinity) <= maxUpdateBytes, `${name}, an update: ${sizes.at(-1)} bytes`)
    }
    const { subject } = JSON.parse(readFileSync(join(folder, 'first/images.intoto.json'), 'utf8'))
    t.strictSame(
      subject.map(({ name, digest }: { name: string; digest: { sha256: string } }) => [
        name,
        `sha256:${digest.sha256}`,
      ]),
      digests(first),
    )
  })

  await t.test('they say what is in them', async (t) => {
    for (const name of ['kas', 'agentk']) {
      const root = join(folder, 'unpacked', name, places.root)
      const sbom = JSON.parse(readFileSync(join(root, 'usr/share/doc/kas/sbom.cdx.json'), 'utf8'))
      t.strictSame(sbomProblems(sbom), [])
      const listed = sbom.components
        .map(({ purl }: { purl: string }) => /^pkg:deb\/debian\/([^@]+)@/.exec(purl)?.[1])
        .filter(Boolean)
      const recorded = globSync('*', { cwd: join(root, 'var/lib/dpkg/status.d') })
      t.strictSame(listed.map(decodeURIComponent).sort(), recorded.sort(), 'what scanners of Debian packages find')
      for (const one of recorded) t.ok(existsSync(join(root, 'usr/share/doc', one, 'copyright')), one)
      t.ok(sbom.components.some(({ purl }: { purl: string }) => /^pkg:npm\/node-linux/.test(purl)))
      t.match(readFileSync(join(root, 'usr/share/doc/node/LICENSE'), 'utf8'), /OpenSSL/)
    }
  })

  await t.test('a container is as bare as it can be', async (t) => {
    const [command = '', ...args] = programs.kas
    const script = `
      const { readFileSync, writeFileSync } = require('node:fs')
      const tried = (path) => { try { writeFileSync(path, ''); return 'written' } catch ({ code }) { return code } }
      const status = readFileSync('/proc/self/status', 'utf8')
      const authorities = readFileSync('/etc/ssl/certs/ca-certificates.crt', 'utf8').split('BEGIN CERTIFICATE').length - 1
      console.log(JSON.stringify({ status, uid: process.getuid(), root: tried('/usr/x'), tmp: tried('/tmp/x'), authorities,
        allocator: /libjemalloc/.test(readFileSync('/proc/self/maps', 'utf8')) }))`
    const cwd = join(folder, 'bare')
    await mkdir(cwd)
    const { stdout, stderr } = await run(command, [...args, '--', '/usr/bin/node', '-e', script], { cwd })
    t.equal(stderr, '')
    const { status, ...rest } = JSON.parse(stdout)
    t.strictSame(
      { ...rest, authorities: rest.authorities > 100 },
      { uid: 65532, root: 'EROFS', tmp: 'written', authorities: true, allocator: true },
    )
    t.match(status, /^CapEff:\t0+$[\s\S]*^CapBnd:\t0+$[\s\S]*^NoNewPrivs:\t1$/m)
    const said = await run(command, [...args, '--', '/usr/bin/sh', '-c', 'kas --version; git --version; ssh -V'], {
      cwd,
    })
    t.match(said, { stdout: /^kas \S+[\s\S]*^git version/m, stderr: /OpenSSH/ })
  })

  await t.test('they form a cluster, and each command answers', async (t) => {
    const { version, gitHead } = JSON.parse(
      readFileSync(join(folder, 'unpacked/kas', places.root, 'usr/lib/kas/package.json'), 'utf8'),
    )
    const state = join(folder, 'state')
    await mkdir(state, { mode: 0o700 })
    const said = gitHead === 'unknown' ? version : `${version} (${gitHead})`
    await playCluster(t, { programs, version: said, folder: state, extent: 'each' })
  })
})

function manifestOf(layout: string): { layers: { size: number }[] } {
  const read = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8'))
  const blob = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`
  return read(blob(read(blob(read('index.json').manifests[0])).manifests[0]))
}
