// A picture opens at its full size when it is tapped; on a phone its labels are too small to read.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll(".bd-article img")) {
    if (picture.closest("a, .sphx-glr-thumbnails")) continue;
    const link = document.createElement("a");
    link.href = picture.src;
    link.title = "Open the picture at its full size";
    picture.replaceWith(link);
    link.append(picture);
  }
});
