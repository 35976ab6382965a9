/** A group at least, and a project. */
const fullPath = /^[^/]+(?:\/[^/]+)+$/
/** GitLab's bound of one name. Characters */
const maxSegment = 255
/** More than its deepest groups have (20, and a project). Characters */
const maxPath = 1000

/** Whether it is short enough to be a project's. */
export function isPathLength(path: string): boolean {
  return path.length <= maxPath && path.split('/').every(({ length }) => length <= maxSegment)
}

/**
 * The full path of the GitLab project that a GitRepository reads: its host is GitLab's, by whatever scheme and port.
 * GitLab's relative root stands before it over HTTP, and not over SSH. As Flux, no scp-like form.
 *
 * @param externalUrl - of GitLab, as kas says it
 * @returns undefined: not of this GitLab
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
