import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
export const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64'
/** names of files and folders in the folder of an unpacked image */
export const places = { root: 'root', about: 'image.json', bundles: 'bundles', runc: 'runc' }

export interface Runc {
  readonly program: string
  /** folder that the loader searches first for its libraries */
  readonly libraries: string
}

export interface Unpacked {
  readonly runc: Runc
  readonly config: { readonly Entrypoint: readonly string[]; readonly Env: readonly string[] }
}

interface Descriptor {
  readonly digest: string
  readonly platform?: { readonly architecture: string }
}

/**
 * Unpacks the root file system of an image, as a runtime does from the layers.
 *
 * @param layout - an OCI layout of one image, for this machine's processor among others
 * @param to - folder, which is created
 * @param runc - the program that will run it
 */
export async function unpackImage(layout: string, to: string, runc: Runc): Promise<void> {
  const read = async <T>(path: string) => JSON.parse(await readFile(join(layout, path), 'utf8')) as T
  const blob = ({ digest }: Descriptor) => `blobs/${digest.replace(':', '/')}`
  const follow = async (path: string) => {
    const { manifests } = await read<{ manifests: Descriptor[] }>(path)
    const found = manifests.find(({ platform = { architecture } }) => platform.architecture === architecture)
    if (!found) throw new Error(`${layout} has no image for ${architecture}`)
    return blob(found)
  }
  const manifest = await read<{ config: Descriptor; layers: Descriptor[] }>(await follow(await follow('index.json')))
  const { config } = await read<{ config: Unpacked['config'] }>(blob(manifest.config))
  const root = join(to, places.root)
  await mkdir(root, { recursive: true })
  for (const layer of manifest.layers) await run('tar', ['-xpzf', join(layout, blob(layer)), '-C', root])
  await writeFile(join(to, places.about), JSON.stringify({ runc, config } satisfies Unpacked))
}

/** Ends and deletes the containers that are left. */
export async function deleteContainers(unpacked: string, { program, libraries }: Runc): Promise<void> {
  const root = ['--root', join(unpacked, places.runc)]
  const env = { ...process.env, LD_LIBRARY_PATH: libraries }
  const { stdout } = await run(program, [...root, 'list', '--quiet'], { env })
  for (const id of stdout.split('\n').filter(Boolean)) await run(program, [...root, 'delete', '--force', id], { env })
}
