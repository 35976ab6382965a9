/** Rewrites the location of a cluster's redirect so that it is right for the caller. */

/** A request's place, as its caller wrote it. */
export interface AskedPlace {
  /** decoded path in the cluster */
  readonly path: string
  /** text after the prefix, as it came, without the query; begins with `/` */
  readonly rawPath: string
  /** last segment of the prefix, if the request ends without the slash after it; undefined: use `rawPath` */
  readonly root?: string | undefined
}

const httpUrl = /^(?:https?:)?\/\/[^/?#]*/i
const proxied = /^\/.*?\/proxy(?=\/|$)/
const dots = /(?:^|\/)\.\.?(?:\/|$)/

/**
 * Makes a path in the cluster relative to the request: it is then valid behind each prefix of kas or a front. A URL
 * with the path of the requested proxy is made relative too, whatever host it names: API servers write their own
 * address. Other locations stay unchanged.
 */
export function relativeLocation(location: string, asked: AskedPlace): string {
  const path = pathOf(location, asked.path)
  if (path === undefined) return location
  const mark = path.search(/[?#]/)
  const plain = mark < 0 ? path : path.slice(0, mark)
  const target = dots.test(plain) ? withoutDots(plain) : plain
  return relativePath(asked, target) + (mark < 0 ? '' : path.slice(mark))
}

/** Returns the path in the cluster; undefined: the location leads elsewhere, or is relative. */
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
  // otherwise a colon would make it a URL, and a slash a path of the host
  const isPlain = up !== '' || !(rest === '' || rest.startsWith('/') || (rest.split('/', 1)[0] ?? '').includes(':'))
  return `${isPlain ? up : './'}${rest}`
}

function withoutDots(path: string): string {
  return URL.canParse(path, 'http://cluster') ? new URL(path, 'http://cluster').pathname : path
}
