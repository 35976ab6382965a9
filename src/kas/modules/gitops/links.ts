import { dirname, join } from 'node:path/posix'
import { setImmediate } from 'node:timers/promises'
import { printable } from '../../../lib/printable.ts'
import type { TreeFile, TreeFiles, TreeLink } from '../../repositories/tree.ts'

/** A link that leads to a file of the same commit. */
export interface LinkedFile {
  /** path of the link */
  readonly path: string
  /** the file that it leads to */
  readonly file: TreeFile
}

export interface FollowedLinks {
  readonly files: readonly LinkedFile[]
  /** chosen paths that are not read, each with the reason; for people */
  readonly leftOut: readonly string[]
}

export interface LinksOf {
  /** files of the listed folder */
  readonly tree: TreeFiles
  readonly folder: string
  /** reads the contents of links, in their order */
  readonly read: (links: readonly TreeFile[]) => Promise<readonly Uint8Array[]>
  /** lists files and links of another folder of the commit; one listing at a time is kept */
  readonly list: (folder: string) => Promise<TreeFiles>
}

/** Links of one round: each is read, and its target is searched in the commit. */
export const maxLinks = 50
/** links that lead to links */
const maxHops = 5
/** folders that are listed beside the common folder of all paths */
const maxFolders = 10
/** links and submodules that are named as left out */
const maxNamed = 20
/** characters of a link's target that a text shows */
const maxShownTarget = 100
/** files of a listing in one turn of the event loop */
const filesAtOnce = 5000

/** Follows links to their files. @param links - chosen by the paths; submodules among them are left out */
export async function followLinks(links: readonly TreeLink[], of: LinksOf): Promise<FollowedLinks> {
  const leftOut: string[] = []
  const leave = ({ path }: Pick<TreeLink, 'path'>, reason: string) => leftOut.push(`${path} ${reason}`)
  for (const link of links) if (link.isSubmodule) leave(link, 'is a submodule: its files are not read')
  const all = links.filter(({ isSubmodule }) => !isSubmodule)
  for (const link of all.slice(maxLinks)) leave(link, `is a link, and more than ${maxLinks} links are chosen`)
  const files: LinkedFile[] = []
  const listed = new Set<string>()
  let open = all.slice(0, maxLinks).map((link) => ({ path: link.path, at: link as TreeFile }))
  for (let hop = 0; open.length > 0; hop++) {
    const contents = await of.read(open.map(({ at }) => at))
    const targets = open.map(({ path, at }, index) => ({ path, ...targetOf(at, contents[index]) }))
    const inside = targets.filter((one) => {
      if (one.target === undefined) leave(one, `is a link to ${one.shown}, which is outside of the repository`)
      return one.target !== undefined
    })
    const found = await search(new Set(inside.map(({ target }) => target as string)), of, listed)
    open = []
    for (const { path, target, shown } of inside) {
      const entry = found.get(target as string)
      if (entry === undefined) leave({ path }, `is a link to ${shown}, where the commit has no file`)
      else if (entry === 'folder') leave({ path }, `is a link to the folder ${shown}: choose its files by paths`)
      else if ('file' in entry) files.push({ path, file: entry.file })
      else if (hop + 1 < maxHops) open.push({ path, at: entry.link })
      else leave({ path }, `leads through more than ${maxHops} links`)
    }
  }
  return { files, leftOut: named(leftOut) }
}

type Entry = { readonly file: TreeFile } | { readonly link: TreeFile } | 'folder'

/** @returns `target` undefined: the link leads outside */
function targetOf({ path }: TreeFile, content: Uint8Array | undefined): { target: string | undefined; shown: string } {
  const text = Buffer.from(content ?? []).toString()
  const shown = printable(text.slice(0, maxShownTarget))
  const target = join(dirname(path), text).replace(/\/+$/, '')
  const isOutside = text.startsWith('/') || target === '..' || target.startsWith('../')
  return { target: isOutside ? undefined : target, shown }
}

/** Searches the commit for these paths. */
async function search(
  targets: ReadonlySet<string>,
  { folder, tree, list }: LinksOf,
  listed: Set<string>,
): Promise<ReadonlyMap<string, Entry>> {
  const found = new Map<string, Entry>()
  const isListed = (path: string) => folder === '' || path.startsWith(`${folder}/`)
  const wanted = Map.groupBy(targets, (path) => (isListed(path) ? folder : folderOf(path)))
  for (const [of, paths] of wanted) {
    if (of === folder) {
      await searchListing(tree, paths, found)
      continue
    }
    if (!listed.has(of) && listed.size >= maxFolders) continue
    listed.add(of)
    await searchListing(await list(of), paths, found)
  }
  return found
}

async function searchListing(listing: TreeFiles, paths: readonly string[], found: Map<string, Entry>): Promise<void> {
  let seen = 0
  for (const file of listing) {
    if (++seen % filesAtOnce === 0) await setImmediate()
    for (const path of paths) {
      if (file.path === path) found.set(path, { file })
      else if (file.path.startsWith(`${path}/`)) found.set(path, 'folder')
    }
  }
  for (const link of listing.links ?? []) if (paths.includes(link.path)) found.set(link.path, { link })
}

/** Returns the path's folder; empty: the root. */
function folderOf(path: string): string {
  const folder = dirname(path)
  return folder === '.' ? '' : folder
}

function named(leftOut: readonly string[]): readonly string[] {
  const more = leftOut.length - maxNamed
  return more > 0 ? [...leftOut.slice(0, maxNamed), `and ${more} more links and submodules`] : leftOut
}
