/**
 * The library's container reads decorators' metadata while it loads; none is ever written, so "there is none" will do.
 */
export async function loadX509() {
  const none = () => undefined
  if (!('getMetadata' in Reflect)) Object.assign(Reflect, { getMetadata: none, getOwnMetadata: none })
  return import('@peculiar/x509')
}
