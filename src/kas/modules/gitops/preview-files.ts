import type { ByteMeter } from '../../../lib/byte-budget.ts'
import { KasError } from '../../../lib/errors.ts'
import { maxFileBytes, maxFiles, maxRoundBytes } from '../../../proto/gitops/limits.ts'
import type { TreeFile, TreeFiles, TreeLink } from '../../repositories/tree.ts'
import { chosenFiles, chosenLinks, type FileChoice, tooManyFiles } from './chosen-files.ts'
import { followLinks } from './links.ts'
import { PathChoice } from './path-choice.ts'
import { readTar, type TarFiles } from './preview/tar-files.ts'

export interface ChosenFile {
  /** path in the repository */
  readonly path: string
  readonly data: Uint8Array
}

/** Bounds of the chosen files, as of a commit. */
export interface PreviewFilesOptions {
  readonly maxFiles: number
  readonly maxFileBytes: number
  readonly maxTotalBytes: number
}

/**
 * Reads a tar of a checkout, and returns the files that the paths of a source choose. The choice and its order are those
 * of a commit.
 *
 * @throws KasError as `readTar` and `chosenFiles`
 */
export async function previewFiles(
  { body, memory }: { readonly body: AsyncIterable<Uint8Array>; readonly memory: ByteMeter },
  choice: FileChoice,
  given: PreviewFilesOptions,
): Promise<readonly ChosenFile[]> {
  const options = boundsOfAgent(given)
  const paths = new PathChoice(choice)
  const tar = await readTar(body, { ...options, memory, chooses: (path) => paths.chooses(path) })
  const tree = new TarTree(tar)
  const chosen = await chosenFiles(choice, tree, options.maxFiles)
  const links = await followLinks(await chosenLinks(choice, tree), {
    tree,
    folder: '',
    read: async (all) => all.map(({ path }) => Buffer.from(tar.links.get(path) ?? '')),
    list: async () => tree,
  })
  const all = [...chosen.map(({ path }) => ({ path, file: { path } })), ...links.files]
  if (all.length > options.maxFiles) throw tooManyFiles(options.maxFiles)
  let bytes = 0
  return all.map(({ path, file }) => {
    const data = tar.files.get(file.path)
    if (!data) throw refused(`${path} leads to ${file.path}, which paths do not choose: pack with tar --dereference`)
    bytes += data.length
    if (bytes > options.maxTotalBytes) throw refused(`the files have more than ${options.maxTotalBytes} bytes`)
    return { path, data }
  })
}

/** agentk takes no more, whatever kas may send it. */
function boundsOfAgent(options: PreviewFilesOptions): PreviewFilesOptions {
  return {
    maxFiles: Math.min(options.maxFiles, maxFiles),
    maxFileBytes: Math.min(options.maxFileBytes, maxFileBytes),
    maxTotalBytes: Math.min(options.maxTotalBytes, maxRoundBytes),
  }
}

/** The paths of a tar as those of a commit. Contents are known by their paths. */
class TarTree implements TreeFiles {
  readonly #files: TarFiles['files']
  readonly links: readonly TreeLink[]

  constructor({ files, links }: TarFiles) {
    this.#files = files
    this.links = Array.from(links.keys(), (path) => ({ path, blob: path, isSubmodule: false }))
  }

  get length(): number {
    return this.#files.size
  }

  *[Symbol.iterator](): Iterator<TreeFile> {
    for (const path of this.#files.keys()) yield { path, blob: path }
  }
}

function refused(detail: string): KasError {
  return new KasError({ code: 'MANIFESTS_REFUSED', detail })
}
