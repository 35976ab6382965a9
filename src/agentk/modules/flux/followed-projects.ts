import type { Logger } from '../../../lib/log.ts'

/** Choice of the projects whose pushes are followed. */

/** At least one group, and a project. */
const fullPath = /^[^/]+(?:\/[^/]+)+$/
/** GitLab's limit for one name in a path. Characters */
const maxSegment = 255
/** Limit for a full path, above GitLab's deepest nesting (20 groups and a project). Characters */
const maxPath = 1000

/** True if the path is short enough for a project. */
export function isPathLength(path: string): boolean {
  return path.length <= maxPath && path.split('/').every(({ length }) => length <= maxSegment)
}

/**
 * Returns the full path of the GitLab project that a GitRepository reads. The host must be GitLab's, with any port.
 * GitLab's relative root precedes the path over HTTP, but not over SSH. As in Flux, there is no scp-like form.
 *
 * @param externalUrl - GitLab's URL, as kas reports it
 * @returns undefined: the repository is not on this GitLab
 */
export function projectPath(repositoryUrl: string, externalUrl: string): string | undefined {
  const repository = parse(repositoryUrl)
  const gitlab = parse(externalUrl)
  if (!repository || !gitlab?.host || repository.host !== gitlab.host) return undefined
  if (!['http', 'https', 'ssh'].includes(repository.scheme)) return undefined
  const root = repository.scheme === 'ssh' || gitlab.path === '' ? '' : `${gitlab.path}/`
  if (!repository.path.startsWith(root)) return undefined
  const path = repository.path.slice(root.length).replace(/\.git$/, '')
  return fullPath.test(path) ? path : undefined
}

function parse(text: string): { scheme: string; host: string; path: string } | undefined {
  try {
    const { protocol, hostname, pathname } = new URL(text)
    const path = decodeURIComponent(pathname).replace(/^\/+|\/+$/g, '')
    return { scheme: protocol.slice(0, -1), host: hostname.toLowerCase(), path }
  } catch {
    return undefined
  }
}

/** Project that an object names. */
export interface NamedProject {
  /** kind and key of the object, for the log */
  readonly object: string
  /** full path */
  readonly project: string
}

interface ProjectChoiceOptions {
  /** limit of projects in one stream; kas refuses more */
  readonly maxProjects: number
  /** limit of all encoded paths: below the 4 MiB that kas accepts as one message */
  readonly maxBytes: number
}

const defaults: ProjectChoiceOptions = { maxProjects: 10_000, maxBytes: 4_000_000 }
/** Bytes of the tags and lengths of one project in the message. */
const overheadBytes = 8

/** Chooses the projects to follow. It leaves out impossible paths, and projects beyond the limits of one stream. */
export class ProjectChoice {
  readonly #log: Logger
  readonly #options: ProjectChoiceOptions
  #chosen: ReadonlySet<string> = new Set()
  /** objects with a path that is too long; each is logged once */
  #tooLong: ReadonlySet<string> = new Set()
  #isFull = false

  constructor({ log }: { log: Logger }, options: Partial<ProjectChoiceOptions> = {}) {
    this.#log = log
    this.#options = { ...defaults, ...options }
  }

  /** Prefers projects that were chosen before, so that invented names do not take their place. @returns sorted */
  choose(all: Iterable<NamedProject>): string[] {
    const named = this.#named(all)
    const known = [...named].filter((project) => this.#chosen.has(project))
    const others = [...named].filter((project) => !this.#chosen.has(project)).sort()
    const chosen = this.#fitting([...known, ...others])
    const isFull = chosen.length < named.size
    if (isFull && !this.#isFull) this.#log.warn({ count: named.size }, 'Too many projects, some are not followed')
    this.#isFull = isFull
    this.#chosen = new Set(chosen)
    return chosen.sort()
  }

  #named(all: Iterable<NamedProject>): Set<string> {
    const named = new Set<string>()
    const tooLong = new Set<string>()
    for (const { object, project } of all) {
      if (isPathLength(project)) named.add(project)
      else {
        if (!this.#tooLong.has(object)) this.#log.warn({ object }, 'The path of a project is too long to be one')
        tooLong.add(object)
      }
    }
    this.#tooLong = tooLong
    return named
  }

  #fitting(projects: readonly string[]): string[] {
    const { maxProjects, maxBytes } = this.#options
    let bytes = 0
    const end = projects.findIndex((project, i) => {
      bytes += Buffer.byteLength(project) + overheadBytes
      return i >= maxProjects || bytes > maxBytes
    })
    return end < 0 ? [...projects] : projects.slice(0, end)
  }
}
