/**
 * True for a name that an API server takes for one segment of a path. Encoding leaves `.` and `..` as they are, which lead
 * to another path. An empty name is no fault here.
 *
 * @see `IsValidPathSegmentName` of k8s.io/apimachinery `pkg/api/validation/path`
 */
export function isPathSegment(name: string): boolean {
  return name !== '.' && name !== '..' && !/[/%]/.test(name)
}
