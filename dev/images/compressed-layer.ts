import { hash } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import type { Layer } from './layer.ts'
import type { CompressedLayer } from './oci-layout.ts'

const compress = promisify(gzip)

/** @param cache - a permanent folder, since compressing a Node takes long */
export async function compressedLayer(about: string, layer: Layer, cache: string): Promise<CompressedLayer> {
  const tar = layer.tar()
  const digest = hash('sha256', tar)
  const folder = join(cache, 'layers', process.versions.zlib)
  const file = join(folder, `${digest}.gz`)
  const kept = await readFile(file).catch(() => undefined)
  if (kept) return { gzip: kept, digest, about }
  const made = await compress(tar, { level: constants.Z_BEST_COMPRESSION })
  await mkdir(folder, { recursive: true })
  await writeFile(`${file}.${process.pid}`, made)
  await rename(`${file}.${process.pid}`, file)
  return { gzip: made, digest, about }
}
