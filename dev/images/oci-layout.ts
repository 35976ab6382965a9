import { hash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** https://github.com/opencontainers/image-spec, 1.1 */

const types = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
}

export type Architecture = 'amd64' | 'arm64'

export interface CompressedLayer {
  readonly gzip: Buffer
  /** digest of the tar inside */
  readonly digest: string
  /** description of its content */
  readonly about: string
}

export interface Image {
  readonly architecture: Architecture
  readonly layers: readonly CompressedLayer[]
  /** `config` of an image's configuration: User, Entrypoint, Env, … */
  readonly config: object
}

interface Descriptor {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
}

export interface ImageLayout {
  /** digest of the index of all architectures, by which the image is pulled */
  readonly digest: string
  /** size of the layers of each architecture */
  readonly compressedBytes: ReadonlyMap<Architecture, number>
}

/**
 * Writes an image for several architectures as an OCI layout.
 *
 * @param folder - folder, which is created
 * @param name - name such as `kas:0.1.0`
 */
export async function writeLayout(folder: string, name: string, images: readonly Image[]): Promise<ImageLayout> {
  const blobs = join(folder, 'blobs/sha256')
  await mkdir(blobs, { recursive: true })
  const add = async (mediaType: string, content: string | Buffer): Promise<Descriptor> => {
    const digest = hash('sha256', content)
    await writeFile(join(blobs, digest), content)
    return { mediaType, digest: `sha256:${digest}`, size: Buffer.byteLength(content) }
  }
  const addImage = async ({ architecture, layers, config }: Image) => {
    const rootfs = { type: 'layers', diff_ids: layers.map(({ digest }) => `sha256:${digest}`) }
    const history = layers.map(({ about }) => ({ created_by: about }))
    const descriptors: Descriptor[] = []
    for (const { gzip } of layers) descriptors.push(await add(types.layer, gzip))
    const own = { architecture, os: 'linux', config, rootfs, history }
    const configuration = await add(types.config, JSON.stringify(own))
    const manifest = { schemaVersion: 2, mediaType: types.manifest, config: configuration, layers: descriptors }
    const descriptor = await add(types.manifest, JSON.stringify(manifest))
    return { ...descriptor, platform: { architecture, os: 'linux' } }
  }
  const manifests = []
  for (const image of images) manifests.push(await addImage(image))
  const index = await add(types.index, JSON.stringify({ schemaVersion: 2, mediaType: types.index, manifests }))
  const annotations = {
    'org.opencontainers.image.ref.name': name.split(':')[1],
    // name that a kubelet uses: an image under a short name is found, and cannot be started
    'io.containerd.image.name': `docker.io/library/${name}`,
  }
  const entry = { schemaVersion: 2, mediaType: types.index, manifests: [{ ...index, annotations }] }
  await writeFile(join(folder, 'index.json'), JSON.stringify(entry))
  await writeFile(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  const bytes = ({ layers }: Image) => layers.reduce((sum, { gzip }) => sum + gzip.length, 0)
  return { digest: index.digest, compressedBytes: new Map(images.map((one) => [one.architecture, bytes(one)])) }
}
