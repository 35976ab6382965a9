/** Where a redirect of a cluster leads to, so that it is right for its caller. */

/** A request, as its caller has written it. */
export interface AskedPlace {
  /** in the cluster, decoded */
  readonly path: string
  /** what follows the prefix, as it came, without the query; begins with `/` */
  readonly rawPath: string
  /** Undefined: `rawPath` is all. The last segment of the prefix, which the request has without the slash behind it */
  readonly root?: string | undefined
}

const httpUrl = /^(?:https?:)?\/\/[^/?#]*/i
const proxied = /^\/.*?\/proxy(?=\/|$)/
const dots = /(?:^|\/)\.\.?(?:\/|$)/

/**
 * Makes a path in the cluster relative to the request: it is right behind each prefix that kas or a front has, which the cluster
 * does not know. So is a URL that leads to what the request was for, whatever host it names: API servers write their own address.
 * All else stays as it is.
 */
export function relativeLocation(location: string, asked: AskedPlace): string {
  const path = pathOf(location, asked.path)
  if (path === undefined) return location
  const mark = path.search(/[?#]/)
  const plain = mark < 0 ? path : path.slice(0, mark)
  const target = dots.test(plain) ? withoutDots(plain) : plain
  return relativePath(asked, target) + (mark < 0 ? '' : path.slice(mark))
}

/** Undefined: it leads elsewhere, or is relative. */
function pathOf(location: string, askedPath: string): string | undefined {
  const [host] = httpUrl.exec(location) ?? []
  if (host === undefined) return location.startsWith('/') ? location : undefined
  const [base] = proxied.exec(askedPath) ?? []
  const path = location.slice(host.length)
  if (base === undefined || !path.startsWith(base)) return undefined
  const next = path.charAt(base.length)
  return next === '' || next === '/' || next === '?' || next === '#' ? path : undefined
}

function relativePath({ rawPath, root }: AskedPlace, path: string): string {
  if (root !== undefined) return root + path
  const from = rawPath.split('/')
  const to = path.split('/')
  const last = Math.min(from.length, to.length) - 1
  let common = 0
  while (common < last && from[common] === to[common]) common++
  const up = '../'.repeat(from.length - 1 - common)
  const rest = to.slice(common).join('/')
  // else a colon would make it a URL, and a slash a path of the host
  const isPlain = up !== '' || !(rest === '' || rest.startsWith('/') || (rest.split('/', 1)[0] ?? '').includes(':'))
  return `${isPlain ? up : './'}${rest}`
}

function withoutDots(path: string): string {
  return URL.canParse(path, 'http://cluster') ? new URL(path, 'http://cluster').pathname : path
}
