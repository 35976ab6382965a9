import { execFile } from 'node:child_process'
import { existsSync, globSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { isElf } from '../../../dev/images/elf.ts'
import { makeImages } from '../../../dev/images/images.ts'
import type { Architecture } from '../../../dev/images/oci-layout.ts'
import { stagedPackage } from '../../support/staged-package.ts'
import { lacking } from './unpacked-runc.ts'

/**
 * An index for both processors, of which this machine has one. Each image's content is for the processor that the index
 * names.
 */

const run = promisify(execFile)
/** values of `e_machine` in an ELF header, and its offset */
const machines: Readonly<Record<Architecture, number>> = { amd64: 62, arm64: 183 }
const machineOffset = 18
/** folder of `npm run images`; all images take minutes to make */
const given = process.env.KAS_IMAGES ?? ''
const skip = (await lacking()) ?? false

t.test('images for the other processor', { skip, timeout: 200_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'kas-images-both-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const [made] = await makeImages({ to: join(folder, 'layouts'), names: ['agentk'], staged: await stagedPackage() })
  const others = existsSync(given)
    ? readdirSync(given).filter((name) => existsSync(join(given, name, 'index.json')))
    : []
  for (const layout of [made?.folder ?? '', ...others.map((name) => join(given, name))]) {
    const read = (path: string) => JSON.parse(readFileSync(join(layout, path), 'utf8'))
    const blob = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`
    const { manifests } = read(blob(read('index.json').manifests[0]))
    t.strictSame(
      manifests.map(({ platform }: { platform: { architecture: string } }) => platform.architecture),
      ['amd64', 'arm64'],
      layout,
    )
    const files: string[][] = []
    for (const [i, manifest] of manifests.entries()) {
      const architecture = manifest.platform.architecture as Architecture
      const { config, layers } = read(blob(manifest))
      t.equal(read(blob(config)).architecture, architecture)
      const root = join(folder, `root-${files.length}-${i}-${architecture}`)
      await mkdir(root)
      for (const layer of layers) await run('tar', ['-xzf', join(layout, blob(layer)), '-C', root])
      const programs = globSync('usr/{bin,lib,sbin}/**', { cwd: root })
        .filter((path) => lstatSync(join(root, path)).isFile())
        .map((path): [path: string, content: Buffer] => [path, readFileSync(join(root, path))])
        .filter(([, content]) => isElf(content))
      t.ok(programs.length > 5, `${programs.length} programs and libraries`)
      const strangers = programs.filter(([, content]) => content.readUInt16LE(machineOffset) !== machines[architecture])
      t.strictSame(
        strangers.map(([path]) => path),
        [],
        `of ${architecture} alone`,
      )
      files.push(
        programs
          .map(([path]) =>
            path.replaceAll(/x86_64-linux-gnu|aarch64-linux-gnu|linux-x86-64\.so\.2|linux-aarch64\.so\.1/g, '*'),
          )
          .sort(),
      )
    }
    t.strictSame(files[1], files[0], 'the same programs and libraries for each')
  }
})
